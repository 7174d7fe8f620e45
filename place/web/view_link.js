// The address of what is to be seen: view, space, place, chosen query and object, labels and trails
// stand in the fragment, which never leaves the browser; whoever opens it sees what they may see.

const PAUSE = 400;
const NUMBER = /^-?\d+(\.\d+)?(e[-+]?\d+)?$/i;

// `#operator?space=wgs84&at=1.5,50.9,2.2&query=dover`: what there is of it, each part checked.
export function readLink(hash) {
  const [view, rest = ""] = hash.replace(/^#/, "").split("?");
  const asked = new URLSearchParams(rest);
  const at = (asked.get("at") ?? "").split(",");
  const isPlace = at.length === 3 && at.every((part) => NUMBER.test(part)) && Number(at[2]) > 0;
  const [stream, ...key] = (asked.get("object") ?? "").split("/");
  return {
    view,
    space: asked.get("space"),
    at: isPlace ? at.map(Number) : null,
    query: asked.get("query"),
    object: key.length ? { stream, key: key.join("/") } : null,
    follows: asked.has("follow"),
    labels: asked.get("labels") ?? "",
    trails: asked.has("trails"),
  };
}

export function writeLink({ view, space, at, query, object, follows, labels, trails }) {
  const asked = new URLSearchParams();
  if (space) asked.set("space", space);
  if (at) asked.set("at", at.map((number) => Number(number.toPrecision(8))).join(","));
  if (query) asked.set("query", query);
  if (object) asked.set("object", `${object.stream}/${object.key}`);
  if (follows) asked.set("follow", "");
  if (labels) asked.set("labels", labels);
  if (trails) asked.set("trails", "");
  // Commas and slashes may stand in a fragment, and are easier to read.
  return `#${view}?${asked.toString().replaceAll("%2C", ",").replaceAll("%2F", "/")}`;
}

// Keeps the address of the page as what is to be seen; `state()` tells what that is.
export class ViewLink {
  constructor(state) {
    this.state = state;
  }

  later() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.write(), PAUSE);
  }

  write() {
    clearTimeout(this.timer);
    const state = this.state();
    if (!state || this.isLeaving(state.view)) return;
    history.replaceState(null, "", writeLink(state));
  }

  // The address names another view already, and the page has not been told of that yet: whoever
  // wrote over it would take back what was just pressed. The other view writes its own.
  isLeaving(view) {
    const asked = readLink(location.hash).view;
    return asked !== view && document.getElementById(`tab-${asked}`) !== null;
  }
}
