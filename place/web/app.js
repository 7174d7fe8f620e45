// The page: both views, signing in, light and dark, and what the connection is doing.

import { Alerts } from "./alerts.js";
import { describeError, logIn, onUnauthorized } from "./api.js";
import { ClientView } from "./client.js";
import { classColour } from "./colours.js";
import { byId, make, showValue } from "./dom.js";
import { Live } from "./live.js";
import { OperatorView } from "./operator.js";
import { Scene } from "./scene.js";

const VIEWS = ["operator", "client"];
const OTHER = 255;
const RETRY = 3000;

const live = new Live();
const scene = new Scene(live);
const dark = matchMedia("(prefers-color-scheme: dark)");
let views = {};
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
  const wanted = location.hash.slice(1);
  const name = VIEWS.includes(wanted) ? wanted : firstView();
  for (const each of VIEWS) {
    const isOn = each === name;
    byId(each).hidden = !isOn;
    byId(`tab-${each}`).setAttribute("aria-selected", String(isOn));
    if (!isOn) views[each].leave();
  }
  views[name].enter();
}

const firstView = () => (live.about?.you.role === "client" ? "client" : "operator");

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

async function inspect(found) {
  const card = byId("card");
  card.hidden = true;
  if (!found) return;
  const object = await live.identify(found.track.stream.index, found.slot);
  if (!object) return;
  card.replaceChildren(
    make("button", { type: "button", class: "close", "aria-label": "Close",
      onclick: () => (card.hidden = true) }, "×"),
    make("h3", {}, `${found.track.stream.name} ${object.key}`),
    make("dl", {}, ...Object.entries(object.row).flatMap(([name, value]) =>
      [make("dt", {}, name), make("dd", {}, showValue(value))])));
  card.hidden = false;
}

async function begin() {
  onUnauthorized(signIn);
  await scene.ready;
  const alerts = new Alerts(live, scene);
  views = { operator: new OperatorView(live, scene, alerts),
    client: new ClientView(live, scene, alerts, say) };
  views.client.composer.onInspect = inspect;
  scene.paint(isDark());
  const isNarrow = matchMedia("(max-width: 760px)").matches;
  byId("legend-box").open = byId("alerts").open = !isNarrow;
  live.on("state", showConnection);
  live.on("about", showWorlds);
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
}

// For the console and for tests.
globalThis.place = { live, scene };
begin().catch((error) => say(error.message, true));
