// The description of the HTTP API as a page: every route, what it takes and gives, and a way to try.

import { byId, make } from "./dom.js";

const VERBS = ["get", "post", "put", "delete"];
const MOST_SHOWN = 20_000;

function schemaText(description, schema, depth = 0) {
  if (!schema) return "";
  if (schema.$ref) {
    const name = schema.$ref.split("/").pop();
    return depth > 3 ? name : schemaText(description, description.components.schemas[name], depth + 1);
  }
  if (schema.anyOf) return schema.anyOf.map((each) => schemaText(description, each, depth)).join(" | ");
  if (schema.type === "array") return `[${schemaText(description, schema.items, depth) || "…"}]`;
  if (schema.properties) {
    const needed = new Set(schema.required ?? []);
    const pad = "  ".repeat(depth + 1);
    const lines = Object.entries(schema.properties).map(
      ([name, each]) =>
        `${pad}${name}${needed.has(name) ? "" : "?"}: ${schemaText(description, each, depth + 1)}`,
    );
    return `{\n${lines.join(",\n")}\n${"  ".repeat(depth)}}`;
  }
  return schema.const !== undefined ? JSON.stringify(schema.const) : (schema.type ?? "any");
}

function parameterTable(description, parameters) {
  if (!parameters.length) return null;
  const rows = parameters.map((each) =>
    make("tr", {},
      make("td", {}, make("code", {}, each.name), each.required ? "" : " (optional)"),
      make("td", {}, each.in),
      make("td", {}, schemaText(description, each.schema)),
      make("td", {}, each.description ?? each.schema?.description ?? ""),
    ));
  const head = make("tr", {}, ...["parameter", "in", "type", ""].map((text) => make("th", { scope: "col" }, text)));
  return make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows));
}

function bodies(description, title, content) {
  return Object.entries(content ?? {}).map(([media, each]) =>
    make("div", {},
      make("p", { class: "quiet" }, `${title} ${media}`),
      make("pre", {}, schemaText(description, each.schema) || "any")));
}

function tryForm(verb, path, parameters, requestBody) {
  const fields = parameters
    .filter((each) => each.in === "path" || each.in === "query")
    .map((each) => ({ each, input: make("input", { name: each.name, required: each.required }) }));
  const medias = Object.keys(requestBody?.content ?? {});
  const media = make("select", { name: "media" }, ...medias.map((each) => make("option", {}, each)));
  const text = make("textarea", { name: "body", rows: "4", spellcheck: "false" });
  const token = make("input", { name: "token", type: "password", autocomplete: "off" });
  const result = make("pre", { "aria-live": "polite", hidden: true });
  const send = async (event) => {
    event.preventDefault();
    let url = path;
    const query = new URLSearchParams();
    for (const { each, input } of fields) {
      if (each.in === "path") url = url.replace(`{${each.name}}`, encodeURIComponent(input.value));
      else if (input.value) query.set(each.name, input.value);
    }
    const headers = token.value ? { Authorization: `Bearer ${token.value}` } : {};
    if (medias.length) headers["Content-Type"] = media.value;
    result.hidden = false;
    result.textContent = "…";
    try {
      const answer = await fetch(query.size ? `${url}?${query}` : url, {
        method: verb.toUpperCase(), headers, body: medias.length ? text.value : undefined,
      });
      const said = (await answer.text()).slice(0, MOST_SHOWN);
      result.textContent = `${answer.status} ${answer.statusText}\n${said}`;
    } catch (error) {
      result.textContent = `The server did not answer: ${error.message}`;
    }
  };
  return make("form", { onsubmit: send },
    ...fields.map(({ each, input }) => make("label", {}, each.name, input)),
    ...(medias.length ? [make("label", {}, "body as", media), make("label", {}, "body", text)] : []),
    make("label", {}, "token, where the server asks for one", token),
    make("button", { class: "plain", type: "submit" }, "Send"),
    result);
}

function route(description, path, verb, operation) {
  const parameters = operation.parameters ?? [];
  const responses = Object.entries(operation.responses ?? {}).flatMap(([status, each]) =>
    bodies(description, `${status}:`, each.content));
  const isStream = path.endsWith("/updates");
  return make("details", { class: "route", id: operation.operationId },
    make("summary", {},
      make("span", { class: "verb" }, verb.toUpperCase()),
      make("span", { class: "path" }, path),
      make("span", { class: "quiet" }, operation.summary ?? "")),
    make("div", { class: "inner" },
      make("p", {}, operation.description ?? ""),
      parameterTable(description, parameters),
      ...bodies(description, "takes", operation.requestBody?.content),
      ...responses,
      isStream ? null : tryForm(verb, path, parameters, operation.requestBody)));
}

async function show() {
  const answer = await fetch("/openapi.json");
  if (!answer.ok) throw new Error(`${answer.status} ${answer.statusText}`);
  const description = await answer.json();
  const routes = Object.entries(description.paths).flatMap(([path, verbs]) =>
    VERBS.filter((verb) => verbs[verb]).map((verb) => route(description, path, verb, verbs[verb])));
  byId("routes").replaceChildren(
    make("h1", {}, `${description.info.title} ${description.info.version}`),
    make("p", {}, description.info.description ?? ""),
    ...routes);
}

show().catch((error) => {
  byId("routes").replaceChildren(make("p", { class: "error", role: "alert" }, `There is no description: ${error.message}`));
});
