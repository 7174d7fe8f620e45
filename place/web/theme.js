// Runs before the first paint, so that a chosen theme does not flash the other one.
(() => {
  const chosen = localStorage.getItem("place.theme");
  if (chosen) document.documentElement.dataset.theme = chosen;
})();
