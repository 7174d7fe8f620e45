// The page: both views, signing in, light and dark, and what the connection is doing.

import { Alerts } from "./alerts.js";
import { describeError, logIn, onUnauthorized } from "./api.js";
import { ClientView } from "./client.js";
import { classColour } from "./colours.js";
import { byId, make } from "./dom.js";
import { Live } from "./live.js";
import { Objects } from "./objects.js";
import { OperatorView } from "./operator.js";
import { Past } from "./past.js";
import { Scene } from "./scene.js";
import { Search } from "./search.js";
import { ViewLink, readLink } from "./view_link.js";

const VIEWS = ["operator", "client"];
const OTHER = 255;
const RETRY = 3000;

const live = new Live();
const scene = new Scene(live);
const dark = matchMedia("(prefers-color-scheme: dark)");
let views = {};
let objects = null;
let past = null;
let link = null;
let quietAt = null;

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : dark.matches;
}

function switchTheme() {
  const theme = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  localStorage.setItem("place.theme", theme);
  scene.paint(isDark());
}

function say(text, isTrouble = false) {
  const banner = byId("banner");
  clearTimeout(quietAt);
  banner.textContent = text;
  banner.hidden = !text;
  banner.classList.toggle("trouble", isTrouble);
  if (text) quietAt = setTimeout(() => (banner.hidden = true), isTrouble ? 12000 : 6000);
}

function showView() {
  const wanted = readLink(location.hash).view;
  const name = VIEWS.includes(wanted) ? wanted : firstView();
  for (const each of VIEWS) {
    const isOn = each === name;
    byId(each).hidden = !isOn;
    byId(`tab-${each}`).setAttribute("aria-selected", String(isOn));
    if (!isOn) views[each].leave();
  }
  views[name].enter();
  link.later();
}

const firstView = () => (live.about?.you.role !== "admin" ? "client" : "operator");

function signIn() {
  const dialog = byId("login");
  const form = byId("login-form");
  if (!dialog.open) dialog.showModal();
  return new Promise((resolve) => {
    form.onsubmit = async (event) => {
      event.preventDefault();
      const trouble = byId("login-error");
      trouble.hidden = true;
      try {
        await logIn(byId("token").value.trim());
        byId("token").value = "";
        dialog.close();
        resolve();
      } catch (error) {
        trouble.textContent = describeError(error);
        trouble.hidden = false;
      }
    };
    dialog.oncancel = (event) => event.preventDefault();
  });
}

function showConnection({ state, pause }) {
  const chip = byId("connection");
  chip.dataset.state = state;
  chip.textContent = { live: "live", connecting: "connecting",
    waiting: `offline, again in ${pause} s` }[state];
  if (state === "live" && live.isPaused) chip.textContent = "paused";
  if (state === "live" && live.past) chip.textContent = "past";
}

function setPaused(isPaused) {
  live.setPaused(isPaused);
  const button = byId("pause");
  button.setAttribute("aria-pressed", String(isPaused));
  button.textContent = isPaused ? "Go on" : "Pause";
  showConnection({ state: byId("connection").dataset.state });
}

function showLegend() {
  const items = [];
  for (const track of live.drawnTracks()) {
    const counts = track.byClass();
    const { classes, name } = track.stream;
    if (live.tracks.size > 1) items.push(make("li", { class: "head" }, name));
    for (const code of [...classes.keys(), OTHER]) {
      const count = counts.get(code) ?? 0;
      if (code === OTHER && (!count || !classes.length)) continue;
      items.push(make("li", { colour: classColour(code) }, make("label", {},
        make("input", { type: "checkbox", checked: !track.hidden.has(code),
          onchange: ({ target }) => showClass(track, code, target.checked) }),
        make("i", { class: "swatch" }), make("span", {}, classes[code] ?? "other"),
        make("b", {}, count.toLocaleString("en")))));
    }
    if (!classes.length) {
      items.push(make("li", { colour: classColour(OTHER) }, make("i", { class: "swatch" }),
        make("span", {}, "objects"), make("b", {}, track.count.toLocaleString("en"))));
    }
  }
  const legend = byId("legend");
  const total = live.drawnTracks().reduce((sum, track) => sum + track.count, 0);
  byId("object-count").textContent = total.toLocaleString("en");
  if (!legend.contains(document.activeElement)) legend.replaceChildren(...items);
}

function showClass(track, code, isShown) {
  track.hidden[isShown ? "delete" : "add"](code);
  track.lay();
  scene.map.triggerRepaint();
}

function showWorlds() {
  const select = byId("world");
  const names = { planar: "Plane", wgs84: "Globe" };
  select.replaceChildren(...[...live.worlds.keys()].map((space) =>
    make("option", { value: space }, names[space])));
  select.value = live.world.space;
  select.hidden = live.worlds.size < 2;
  if (!live.streams.length) {
    say("There is no stream yet: CREATE STREAM makes one, and its objects appear here.");
  }
}

// What may stand beside each object, and whether one sees where it came from.
function showChoices() {
  const select = byId("label-column");
  const columns = scene.labels.columns();
  select.replaceChildren(make("option", { value: "" }, "none"),
    ...columns.map((name) => make("option", { value: name }, name)));
  if (scene.labels.column && !columns.includes(scene.labels.column)) scene.labels.choose("");
  select.value = scene.labels.column;
}

// The query that a card asks for is registered, and its answer shown in the view that is open.
async function askAbout(asked) {
  const name = await views.client.askAround(asked);
  if (name && !byId("operator").hidden) views.operator.choose(name);
}

// Open what a link names, part by part as it can be had.
async function openLink() {
  const link = readLink(location.hash);
  if (link.space && live.worlds.has(link.space) && link.space !== live.world.space) {
    live.choose(link.space);
    byId("world").value = link.space;
  }
  if (link.at) scene.goWhere(link.at);
  scene.labels.choose(link.labels);
  byId("label-column").value = scene.labels.column;
  byId("trails").checked = link.trails;
  scene.trails.show(link.trails);
  if (link.query) {
    if (!live.queries.size) await live.next("queries");
    if (live.queries.has(link.query)) views.operator.choose(link.query, false);
  }
  if (link.object) {
    if (!live.drawnTracks().some((track) => track.count)) await live.next("frame");
    const found = await objects.chooseKey(link.object.stream, link.object.key, !link.at);
    if (found && link.follows) objects.follow(true);
  }
}

function viewNow() {
  if (!live.world) return null;
  const { chosen } = objects;
  const stream = chosen && live.tracks.get(chosen.stream)?.stream.name;
  return {
    view: byId("client").hidden ? "operator" : "client", space: live.world.space,
    at: scene.where(), query: views.operator.chosen,
    object: stream ? { stream, key: chosen.key } : null, follows: objects.isFollowing,
    labels: scene.labels.column, trails: scene.trails.isOn,
  };
}

async function copyLink() {
  link.write();
  try {
    await navigator.clipboard.writeText(location.href);
    say("The link to this view is copied.");
  } catch {
    say("The link to this view is in the address bar.");
  }
}

async function begin() {
  onUnauthorized(signIn);
  await scene.ready;
  const alerts = new Alerts(live, scene);
  objects = new Objects(live, scene, say);
  objects.onAsk = askAbout;
  new Search(live, objects);
  past = new Past(live, scene, alerts, say);
  views = { operator: new OperatorView(live, scene, alerts, objects, say),
    client: new ClientView(live, scene, alerts, objects, say) };
  views.client.composer.onInspect = (found) => objects.choose(found);
  link = new ViewLink(viewNow);
  scene.paint(isDark());
  const isNarrow = matchMedia("(max-width: 760px)").matches;
  byId("legend-box").open = byId("alerts").open = !isNarrow;
  live.on("state", showConnection);
  live.on("about", showWorlds);
  live.on("about", ({ you }) => (byId("composer").hidden = you.role === "viewer"));
  live.on("world", showChoices);
  for (const event of ["chosen", "world"]) live.on(event, () => link.later());
  scene.map.on("moveend", () => link.later());
  byId("label-column").addEventListener("change", ({ target }) => {
    scene.labels.choose(target.value);
    link.later();
  });
  byId("trails").addEventListener("change", ({ target }) => {
    scene.trails.show(target.checked);
    link.later();
  });
  byId("link").addEventListener("click", copyLink);
  live.on("past", () => showConnection({ state: byId("connection").dataset.state }));
  live.on("classes", showLegend);
  live.on("trouble", (error) => say(describeError(error), true));
  live.on("frame", (track) => {
    byId("clock").textContent = track.instant
      ? new Date(track.instant).toISOString().slice(0, 19).replace("T", " ") : "";
  });
  setInterval(() => !live.isPaused && live.world && showLegend(), 1000);
  byId("theme").addEventListener("click", switchTheme);
  dark.addEventListener("change", () => scene.paint(isDark()));
  byId("pause").addEventListener("click", () => setPaused(!live.isPaused));
  byId("world").addEventListener("change", ({ target }) => live.choose(target.value));
  window.addEventListener("hashchange", showView);
  await load();
}

async function load() {
  try {
    await live.load();
  } catch (error) {
    say(describeError(error), true);
    showConnection({ state: "waiting", pause: RETRY / 1000 });
    setTimeout(load, RETRY);
    return;
  }
  showView();
  live.connect();
  await openLink();
}

// For the console and for tests.
globalThis.place = {
  live,
  scene,
  get objects() { return objects; },
  get past() { return past; },
  get link() { return link; },
};
begin().catch((error) => say(error.message, true));
