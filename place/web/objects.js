// The object that was chosen: a card that lives as long as it does, a ring around it, a camera that
// goes with it, and questions that one would ask of it.

import { byId, make, showValue } from "./dom.js";

const PAUSE = 900;
const NEAREST = 5;

export class Objects {
  constructor(live, scene, say) {
    Object.assign(this, { live, scene, say });
    this.isFollowing = false;
    this.askedAt = 0;
    live.on("frame", () => this.look());
    live.on("world", () => this.again());
    scene.map.on("dragstart", () => this.follow(false));
    window.addEventListener("keydown", ({ key, target }) => {
      if (key === "Escape" && byId("card").contains(target)) this.close();
    });
  }

  get chosen() {
    return this.scene.chosen;
  }

  // An object of a row or of a link, by its stream and key.
  async chooseKey(name, key, goes = true) {
    const stream = this.live.streamOf(name);
    if (stream && stream.space !== this.live.world.space) {
      this.live.choose(stream.space);
      await this.live.next("frame");
    }
    const { index, slot } = await this.live.ask({ type: "locate", stream: name, key }) ?? {};
    const track = this.live.tracks.get(index);
    if (!track || slot === null || slot === undefined) {
      const { then } = this.live;
      this.say(then ? `${name} ${key} is not on the map as of ${then.text}.`
        : `${name} ${key} is not on the map: it is gone, or yours to see no more.`);
      return false;
    }
    await this.choose({ track, slot });
    if (goes) this.scene.goToObject(track, slot);
    return true;
  }

  // Slots are others when the page has been away, or a stream came; the key is the same.
  async again() {
    const { chosen, stream } = this;
    if (!chosen) return;
    this.close();
    if (this.live.streamOf(stream.name)?.space !== this.live.world.space) return;
    await this.live.next("frame");
    if (!this.chosen) await this.chooseKey(stream.name, chosen.key, false);
  }

  async choose(found) {
    if (!found) {
      this.close();
      return;
    }
    const { track: { stream }, slot } = found;
    const object = await this.live.identify(stream.index, slot);
    if (!object) {
      this.say("That object is gone.");
      return;
    }
    this.isFollowing = false;
    this.scene.choose({ stream: stream.index, slot, key: object.key, text: String(object.key) });
    this.build(stream, object);
    this.live.tell("chosen", this.chosen);
  }

  build(stream, object) {
    const button = (id, text, onclick) => make("button", { type: "button", id, onclick }, text);
    this.values = new Map(Object.keys(object.row).map((name) => [name, make("dd", {})]));
    this.state = make("p", { class: "gone", role: "status" });
    this.followButton = button("card-follow", "Follow", () => this.follow(!this.isFollowing));
    byId("card").replaceChildren(
      button("card-close", "×", () => this.close()),
      make("h3", {}, `${stream.name} ${object.key}`), this.state,
      make("dl", {}, ...[...this.values].flatMap(([name, value]) => [make("dt", {}, name), value])),
      make("div", { class: "asks" }, this.followButton,
        button("card-nearest", "Nearest", () => this.ask("knn")),
        button("card-around", "Around it", () => this.ask("range"))));
    byId("card-close").setAttribute("aria-label", "Close");
    byId("card-nearest").title = `Register a query for the ${NEAREST} nearest to it`;
    byId("card-around").title = "Register a query for what is around it";
    byId("card").setAttribute("aria-label", `${stream.name} ${object.key}`);
    byId("card").hidden = false;
    this.stream = stream;
    this.showRow(object.row);
    this.showFollowing();
  }

  showRow(row) {
    this.state.textContent = this.live.then ? `As of ${this.live.then.text}.` : "";
    byId("card").classList.remove("is-gone");
    for (const [name, value] of Object.entries(row)) {
      const cell = this.values.get(name);
      const type = this.stream.columns.find((column) => column.name === name)?.type;
      const text = showValue(value, type);
      if (cell && cell.textContent !== text) cell.textContent = text;
    }
  }

  // At each frame: where to look, and now and then what has become of it.
  async look() {
    const { chosen } = this;
    if (!chosen) return;
    const track = this.live.tracks.get(chosen.stream);
    const isThere = track?.lives(chosen.slot);
    if (!isThere) {
      this.showGone();
      return;
    }
    if (this.isFollowing) this.scene.moveTo(track, chosen.slot);
    clearTimeout(this.timer);
    const early = this.live.past ? 0 : this.askedAt + PAUSE - performance.now();
    if (early > 0) {
      this.timer = setTimeout(() => this.look(), early);
      return;
    }
    this.askedAt = performance.now();
    const object = await this.live.identify(chosen.stream, chosen.slot);
    if (this.chosen === chosen && object?.key === chosen.key) this.showRow(object.row);
  }

  showGone() {
    const { then } = this.live;
    if (!then && byId("card").classList.contains("is-gone")) return;
    byId("card").classList.add("is-gone");
    this.state.textContent = then ? `It is not there as of ${then.text}.`
      : "It is gone; this is what it was last.";
    if (then) for (const cell of this.values.values()) cell.textContent = "–";
    this.follow(false);
  }

  follow(isFollowing) {
    if (!this.chosen || this.isFollowing === isFollowing) return;
    this.isFollowing = isFollowing;
    this.showFollowing();
    const track = this.live.tracks.get(this.chosen.stream);
    if (isFollowing && track?.lives(this.chosen.slot)) this.scene.moveTo(track, this.chosen.slot);
    this.live.tell("chosen", this.chosen);
  }

  showFollowing() {
    this.followButton.setAttribute("aria-pressed", String(this.isFollowing));
    this.followButton.textContent = this.isFollowing ? "Following" : "Follow";
  }

  // Register the query that a click asks for: the nearest to it, or what is around it.
  ask(kind) {
    this.onAsk?.({ kind, stream: this.stream, focal: String(this.chosen.key), k: NEAREST });
  }

  close() {
    if (byId("card").hidden && !this.chosen) return;
    const hadFocus = byId("card").contains(document.activeElement);
    byId("card").hidden = true;
    this.isFollowing = false;
    this.scene.choose(null);
    this.live.tell("chosen", null);
    if (hadFocus) this.scene.map.getCanvas().focus();
  }
}
