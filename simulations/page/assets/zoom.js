// Moving within the raster: drag a box, wheel or keys once it has the focus, buttons for touch.
let drag = null;

function zoomTo(r0, r1, c0, c1) {
  const least = 8, rounds = Math.max(least, r1 - r0), clients = Math.max(Math.min(least, raster.clients), c1 - c0), all = wholeView();
  const clamp = (start, size, low, high) => (size >= high - low ? [low, high] : [Math.min(Math.max(start, low), high - size), Math.min(Math.max(start, low), high - size) + size]);
  const [x0, x1] = clamp(r0, rounds, all.r0, all.r1), [y0, y1] = clamp(c0, clients, 0, all.c1);
  raster.view = { r0: x0, r1: x1, c0: y0, c1: y1 };
  requestAnimationFrame(drawRaster);
}

function zoomBy(factor, at = [0.5, 0.5]) {
  const { r0, r1, c0, c1 } = raster.view, x = r0 + at[0] * (r1 - r0), y = c0 + at[1] * (c1 - c0);
  zoomTo(x - (x - r0) * factor, x + (r1 - x) * factor, y - (y - c0) * factor, y + (c1 - y) * factor);
}

function moveBy(x, y) {
  const { r0, r1, c0, c1 } = raster.view;
  zoomTo(r0 + x * (r1 - r0), r1 + x * (r1 - r0), c0 + y * (c1 - c0), c1 + y * (c1 - c0));
}

// Where the pointer is, as shares of the picture.
function within(event) {
  const box = $("raster").getBoundingClientRect();
  return [Math.min(1, Math.max(0, (event.clientX - box.left - LEFT) / (box.width - LEFT - RIGHT))), Math.min(1, Math.max(0, (event.clientY - box.top) / box.height))];
}

function cellAt([x, y]) {
  const { view } = raster, round = Math.floor(view.r0 + x * (view.r1 - view.r0)), row = Math.floor(view.c0 + y * (view.c1 - view.c0));
  if (round < raster.first - 1 || round >= raster.rounds || row < 0 || row >= raster.clients) return null;
  return { round: round + 1, row, client: raster.order[row], kind: raster.cells[(round - raster.first + 1) * raster.clients + raster.order[row]] };
}

function readCell(place) {
  const cell = place && cellAt(place);
  if (!cell) return keep($("raster-read"), "");
  const said = STATES.find(([kind]) => kind === cell.kind)?.[1] ?? "not there";
  keep($("raster-read"), `${nameOf(cell.client)}, rank ${grouped(cell.row + 1)} of ${grouped(raster.clients)}, round ${grouped(cell.round)}: ${said}`);
}

function drawDrag(context, ratio) {
  if (!drag?.moved) return;
  const width = context.canvas.width - (LEFT + RIGHT) * ratio, [a, b] = [drag.from, drag.to];
  context.strokeStyle = ink("--ink");
  context.lineWidth = 1.5 * ratio;
  context.setLineDash([4 * ratio, 3 * ratio]);
  context.strokeRect(LEFT * ratio + Math.min(a[0], b[0]) * width, Math.min(a[1], b[1]) * context.canvas.height, Math.abs(a[0] - b[0]) * width, Math.abs(a[1] - b[1]) * context.canvas.height);
  context.setLineDash([]);
}

function endDrag() {
  const { view } = raster, { from, to, moved } = drag ?? {};
  drag = null;
  if (!from) return;
  if (!moved) {
    const cell = cellAt(from);
    if (cell) chooseClient(cell.client);
    return;
  }
  const part = (axis, start, size) => [start + Math.min(from[axis], to[axis]) * size, start + Math.max(from[axis], to[axis]) * size];
  zoomTo(...part(0, view.r0, view.r1 - view.r0), ...part(1, view.c0, view.c1 - view.c0));
}

const ZOOM_KEYS = {
  "+": () => zoomBy(0.5), "=": () => zoomBy(0.5), "-": () => zoomBy(2), 0: () => zoomTo(...Object.values(wholeView())),
  ArrowLeft: () => moveBy(-0.2, 0), ArrowRight: () => moveBy(0.2, 0), ArrowUp: () => moveBy(0, -0.2), ArrowDown: () => moveBy(0, 0.2),
};

function startZoom() {
  const canvas = $("raster");
  canvas.addEventListener("pointerdown", (event) => {
    if (event.pointerType === "mouse") { canvas.setPointerCapture(event.pointerId); canvas.focus(); }
    drag = { from: within(event), to: within(event), moved: false, x: event.clientX, y: event.clientY };
  });
  canvas.addEventListener("pointermove", (event) => {
    readCell(within(event));
    if (!drag) return;
    if (event.pointerType !== "mouse") { moveBy(drag.to[0] - within(event)[0], 0); drag.moved = true; drag.to = within(event); return; }
    drag.to = within(event);
    drag.moved = drag.moved || Math.hypot(event.clientX - drag.x, event.clientY - drag.y) > 5;
    if (drag.moved) requestAnimationFrame(drawRaster);
  });
  canvas.addEventListener("pointerup", (event) => { if (event.pointerType !== "mouse" && drag?.moved) drag = null; else endDrag(); });
  canvas.addEventListener("pointercancel", () => { drag = null; });
  canvas.addEventListener("pointerleave", () => readCell(null));
  canvas.addEventListener("dblclick", () => ZOOM_KEYS[0]());
  // Without the focus the wheel scrolls the page, as everywhere.
  canvas.addEventListener("wheel", (event) => {
    if (document.activeElement !== canvas) return;
    event.preventDefault();
    zoomBy(event.deltaY > 0 ? 1.25 : 0.8, within(event));
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    if (!ZOOM_KEYS[event.key] || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    ZOOM_KEYS[event.key]();
  });
  $("zoom-in").addEventListener("click", () => zoomBy(0.5));
  $("zoom-out").addEventListener("click", () => zoomBy(2));
  $("zoom-all").addEventListener("click", () => ZOOM_KEYS[0]());
  new ResizeObserver(() => raster.view && drawRaster()).observe(canvas);
  redraws.push(() => { showStates(); if (raster.view) drawRaster(); });
}

function showStates() {
  const colours = stateColours();
  $("states").replaceChildren(...STATES.map(([kind, name]) => {
    const box = el("canvas", { width: 14, height: 14, "aria-hidden": "true" }), context = box.getContext("2d");
    context.fillStyle = hatched(context, kind, colours[kind], 1);
    context.fillRect(0, 0, 14, 14);
    return el("span", {}, box, ` ${name}`);
  }));
}

function showParticipation() {
  $("participation").hidden = !details;
  const empty = $("raster-parts").hidden = !raster.clients || !raster.rounds;
  if (empty) return keep($("raster-note"), state.report && details ? "Who took part in which round is not in this file." : "Nobody has taken part yet, or the run is of a version that did not write down who did.");
  const run = state.runs.get(state.run), from = raster.first > 1 ? `rounds ${grouped(raster.first)} to ${grouped(raster.rounds)}` : `${grouped(raster.rounds)} round${raster.rounds === 1 ? "" : "s"}`;
  keep($("raster-note"), `Each row is ${run?.deployed ? "a node" : "a client"}, the most frequent at the top; each column is a round (${from}). Below: participants per round. ` +
    `${raster.replayed ? "Worked out again from the seed: who came, not whether a reply was lost. " : ""}` +
    "Drag a box to zoom in, click a row for its client; with the focus: wheel, + − 0 and arrow keys.");
  $("raster").setAttribute("aria-label", `Raster of ${grouped(raster.clients)} clients in ${from}; + and − zoom, arrow keys move, 0 shows all`);
  // Few clients need no high picture.
  $("raster").style.height = raster.clients < 30 ? `${Math.max(5, 0.9 * raster.clients)}rem` : "";
  raster.what = run?.deployed ? "nodes" : "clients";
  drawRaster();
}
