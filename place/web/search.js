// Finding an object by its key: a field with a list of those that fit, for pointers and keys alike.

import { byId, make } from "./dom.js";

const PAUSE = 160;

export class Search {
  constructor(live, objects) {
    Object.assign(this, { live, objects });
    this.found = [];
    this.at = -1;
    this.field = byId("find");
    this.list = byId("found");
    this.field.addEventListener("input", () => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.look(), PAUSE);
    });
    this.field.addEventListener("keydown", (event) => this.key(event));
    this.field.addEventListener("blur", () => setTimeout(() => this.show([]), 200));
    live.on("world", () => this.show([]));
  }

  async look() {
    const text = this.field.value.trim();
    if (!text) {
      this.show([]);
      return;
    }
    const answer = await this.live.ask({ type: "find", text });
    if (this.field.value.trim() !== text || !answer) return;
    this.show(answer.objects.filter(({ stream }) => this.streamOf(stream)), true);
  }

  // Of other spaces, too: choosing one leads there.
  streamOf(index) {
    return this.live.streams.find((stream) => stream.index === index);
  }

  show(found, isAsked = false) {
    this.found = found;
    this.at = -1;
    const several = this.live.streams.length > 1;
    const options = found.map(({ stream, key }, i) => make("li", { role: "option", id: `found-${i}`,
      "aria-selected": "false", onpointerdown: (event) => event.preventDefault(),
      onclick: () => this.take(i) },
    make("b", {}, String(key)), several ? make("span", {}, this.streamOf(stream).name) : null));
    this.list.replaceChildren(...options);
    byId("found-none").hidden = !(isAsked && !found.length);
    this.list.hidden = !found.length;
    this.field.setAttribute("aria-expanded", String(found.length > 0));
    this.field.removeAttribute("aria-activedescendant");
  }

  key(event) {
    if (event.key === "Escape") this.show([]);
    else if (event.key === "Enter") {
      event.preventDefault();
      if (this.found.length) this.take(Math.max(0, this.at));
    } else if (this.found.length && ["ArrowDown", "ArrowUp"].includes(event.key)) {
      event.preventDefault();
      const step = event.key === "ArrowDown" ? 1 : -1;
      this.at = (this.at + step + this.found.length) % this.found.length;
      [...this.list.children].forEach((item, i) =>
        item.setAttribute("aria-selected", String(i === this.at)));
      this.field.setAttribute("aria-activedescendant", `found-${this.at}`);
      this.list.children[this.at].scrollIntoView({ block: "nearest" });
    }
  }

  take(i) {
    const { stream, key } = this.found[i];
    this.field.value = String(key);
    this.show([]);
    this.objects.chooseKey(this.streamOf(stream).name, key);
  }
}
