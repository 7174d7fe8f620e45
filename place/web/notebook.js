// The map in a notebook. Its parts are those of the page: their texts come with the widget, because a
// notebook has no address to ask for them, and become modules here.

const made = new Map();

function moduleOf(name, texts) {
  if (!made.has(name)) {
    const text = texts[name].replace(/from "\.\/([\w.]+)"/g,
      (_, inner) => `from "${moduleOf(inner, texts)}"`);
    made.set(name, URL.createObjectURL(new Blob([text], { type: "text/javascript" })));
  }
  return made.get(name);
}

// The library is no module: it is put into the page once.
function library(text, style) {
  globalThis.placeLibrary ??= new Promise((resolve, reject) => {
    const sheet = document.createElement("style");
    sheet.textContent = style;
    const script = document.createElement("script");
    script.src = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
    script.onload = resolve;
    script.onerror = () => reject(new Error("the map's library cannot be loaded"));
    document.head.append(sheet, script);
  });
  return globalThis.placeLibrary;
}

const bufferOf = (view) => view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength);

export default {
  async render({ model, el }) {
    await library(model.get("_library"), model.get("_style"));
    const { AnswerMap } = await import(moduleOf("answer_map.js", model.get("_modules")));
    const box = document.createElement("div");
    box.style.cssText = `height: ${model.get("height")}px; position: relative;`;
    el.append(box);
    const map = new AnswerMap(box, model.get("about"));
    const take = () => {
      const frame = model.get("frame");
      if (frame.byteLength) map.take(bufferOf(frame), model.get("labels"));
    };
    model.on("change:frame", take);
    take();
    el.placeMap = map;
    return () => {
      model.off("change:frame", take);
      map.remove();
    };
  },
};
