// Draws every history of the page. A lane is a process; x is the index of an event.
"use strict";
for (const section of document.querySelectorAll("section")) {
  const data = JSON.parse(section.querySelector("script").textContent);
  const view = section.querySelector(".history");
  const NAMES = 70, LANE = 34, BAR = 22;
  const lanes = [...new Set(data.operations.map((op) => op.lane))];
  lanes.sort((a, b) => a.localeCompare(b, undefined, { numeric: true }));
  const first = data.operations.reduce((least, op) => Math.min(least, op.from), Infinity);
  const last = data.operations.reduce((most, op) => Math.max(most, op.from, op.to ?? 0), 0) + 1;
  let scale = Math.min(80, Math.max(12, (view.clientWidth - NAMES - 20) / Math.max(1, last - first)));
  const make = (parent, name, attributes, text) => {
    const node = parent.appendChild(document.createElementNS("http://www.w3.org/2000/svg", name));
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== undefined) node.textContent = text;
    return node;
  };
  const draw = () => {
    view.replaceChildren();
    const x = (event) => NAMES + (event - first) * scale;
    const width = data.operations.length ? x(last) + 20 : NAMES;
    const svg = make(view, "svg", { width, height: lanes.length * LANE + 10 });
    lanes.forEach((lane, at) => {
      const y = at * LANE + LANE / 2 + 5;
      make(svg, "line", { class: "lane", x1: NAMES, x2: width, y1: y, y2: y });
      make(svg, "text", { x: 4, y: y + 4 }, "process " + lane);
    });
    data.operations.forEach((op, at) => {
      const y = lanes.indexOf(op.lane) * LANE + LANE / 2 + 5;
      const open = op.to === null;
      const group = make(svg, "g", {
        class: "op " + op.mark + (open ? " unknown" : ""),
        tabindex: 0,
        "data-at": at,
        role: "img",
        "aria-label": op.label + ", " + op.when,
      });
      make(group, "title", {}, op.label + ", " + op.when);
      const to = open ? width : x(op.to);
      make(group, "rect", { x: x(op.from), y: y - BAR / 2, width: Math.max(3, to - x(op.from)), height: BAR, rx: 3 });
      const room = Math.floor((to - x(op.from) - 6) / 7);
      const short = op.label.length > room ? op.label.slice(0, Math.max(0, room - 1)) + "…" : op.label;
      if (room > 2) make(group, "text", { x: x(op.from) + 5, y: y + 4 }, short);
      if (op.point !== null) make(group, "circle", { class: "point", cx: x(op.point), cy: y + BAR / 2, r: 3.5 });
    });
  };
  // What is at `at` pixels from the left edge stays there, and an operation that has the focus keeps it.
  const zoom = (factor, at) => {
    const before = (view.scrollLeft + at - NAMES) / scale;
    const focused = view.contains(document.activeElement) ? document.activeElement.dataset.at : undefined;
    scale = Math.min(400, Math.max(0.2, scale * factor));
    draw();
    if (focused !== undefined) view.querySelector('[data-at="' + focused + '"]').focus({ preventScroll: true });
    view.scrollLeft = before * scale + NAMES - at;
  };
  view.addEventListener("keydown", (event) => {
    if (event.key === "+" || event.key === "=") zoom(1.4, view.clientWidth / 2);
    else if (event.key === "-") zoom(1 / 1.4, view.clientWidth / 2);
    else if (event.key === "ArrowLeft") view.scrollLeft -= 80;
    else if (event.key === "ArrowRight") view.scrollLeft += 80;
    else if (event.key === "Home") view.scrollLeft = 0;
    else if (event.key === "End") view.scrollLeft = view.scrollWidth;
    else return;
    event.preventDefault();
  });
  view.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    zoom(event.deltaY < 0 ? 1.2 : 1 / 1.2, event.clientX - view.getBoundingClientRect().left);
  }, { passive: false });
  let held = null;
  view.addEventListener("pointerdown", (event) => { held = event.clientX + view.scrollLeft; });
  view.addEventListener("pointermove", (event) => { if (held !== null) view.scrollLeft = held - event.clientX; });
  for (const name of ["pointerup", "pointerleave"]) view.addEventListener(name, () => { held = null; });
  draw();
  view.querySelector(".culprit")?.scrollIntoView({ block: "nearest", inline: "center" });
  if (data.left_out > 0) {
    const note = section.appendChild(document.createElement("p"));
    note.textContent = data.left_out + " operations farther away are not drawn.";
  }
}
document.documentElement.dataset.drawn = "yes";
