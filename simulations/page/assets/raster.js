// Clients × rounds on a canvas, and participants per round below it with the same rounds.
const LOST = 1, REJECTED = 2, COUNTED = 3;
const STATES = [[COUNTED, "counted"], [REJECTED, "rejected"], [LOST, "there, but not in the sum"]];
const LEFT = 62, RIGHT = 16;

const raster = { cells: new Uint8Array(0), clients: 0, first: 1, rounds: 0, order: null, view: null, cursor: null };

// Dark, middle and light, so that they differ without any colour too.
const stateColours = () => (isDark()
  ? { 0: [29, 32, 38], [COUNTED]: [61, 155, 217], [REJECTED]: [255, 255, 255], [LOST]: [246, 210, 122] }
  : { 0: [255, 255, 255], [COUNTED]: [0, 114, 178], [REJECTED]: [0, 0, 0], [LOST]: [240, 183, 64] });
const css = (colour) => `rgb(${colour.join(",")})`;

function unpackRounds(packed, clients) {
  const width = Math.ceil(clients / 4), rounds = Math.floor(packed.length / width), cells = new Uint8Array(rounds * clients);
  for (let round = 0; round < rounds; round++)
    for (let client = 0, base = round * clients, from = round * width; client < clients; client++)
      cells[base + client] = (packed[from + (client >> 2)] >> (2 * (client & 3))) & 3;
  return cells;
}

function resetRaster() {
  Object.assign(raster, { cells: new Uint8Array(0), clients: 0, first: 1, rounds: 0, order: null, view: null, cursor: null });
}

// Adds rounds; whoever looks at all of them goes on doing so.
function addRounds(found) {
  const fresh = unpackRounds(found.packed, found.clients), follows = raster.clients === found.clients && found.first === raster.rounds + 1;
  const whole = !raster.view || (raster.view.r1 >= raster.rounds && raster.view.r0 <= raster.first - 1);
  if (!follows) Object.assign(raster, { cells: fresh, clients: found.clients, first: found.first });
  else if (fresh.length) {
    const joined = new Uint8Array(raster.cells.length + fresh.length);
    joined.set(raster.cells);
    joined.set(fresh, raster.cells.length);
    raster.cells = joined;
  }
  raster.rounds = found.rounds;
  raster.replayed = found.replayed;
  if (whole || !follows) raster.view = wholeView();
}

const wholeView = () => ({ r0: raster.first - 1, r1: Math.max(raster.rounds, raster.first), c0: 0, c1: Math.max(1, raster.clients) });

// The most frequent client first: by its probability where that is known, else as it came.
function orderClients(probability) {
  const frequency = probability?.length === raster.clients ? probability : countsByClient();
  raster.order = Uint32Array.from({ length: raster.clients }, (_, client) => client).sort((a, b) => frequency[b] - frequency[a] || a - b);
}

function countsByClient() {
  const counts = new Uint32Array(raster.clients), { cells, clients } = raster;
  for (let place = 0; place < cells.length; place += clients)
    for (let client = 0; client < clients; client++) if (cells[place + client] === COUNTED) counts[client]++;
  return counts;
}

function fit(canvas) {
  const ratio = window.devicePixelRatio || 1;
  const [width, height] = [Math.round(canvas.clientWidth * ratio), Math.round(canvas.clientHeight * ratio)];
  if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
  return ratio;
}

// How many cells of each state fall on each pixel of a picture of this size.
function binned(columns, rows) {
  const { cells, clients, first, order, view } = raster, sums = [1, 2, 3].map(() => new Uint32Array(columns * rows));
  const r0 = Math.max(Math.floor(view.r0), first - 1), r1 = Math.min(Math.ceil(view.r1), raster.rounds);
  const c0 = Math.max(0, Math.floor(view.c0)), c1 = Math.min(clients, Math.ceil(view.c1));
  const rowOf = new Uint32Array(c1 - c0);
  for (let row = c0; row < c1; row++) rowOf[row - c0] = Math.min(rows - 1, Math.max(0, Math.floor(((row + 0.5 - view.c0) / (view.c1 - view.c0)) * rows))) * columns;
  for (let round = r0; round < r1; round++) {
    const base = (round - first + 1) * clients, column = Math.min(columns - 1, Math.max(0, Math.floor(((round + 0.5 - view.r0) / (view.r1 - view.r0)) * columns)));
    for (let row = c0; row < c1; row++) {
      const cell = cells[base + order[row]];
      if (cell) sums[cell - 1][rowOf[row - c0] + column]++;
    }
  }
  return sums;
}

function drawRaster() {
  const canvas = $("raster"), ratio = fit(canvas), context = canvas.getContext("2d"), { view } = raster;
  if (!view || !canvas.width) return;
  const left = LEFT * ratio, colours = stateColours();
  const width = canvas.width - left - RIGHT * ratio;
  const columns = Math.max(1, Math.min(width, Math.ceil(view.r1) - Math.floor(view.r0)));
  const rows = Math.max(1, Math.min(canvas.height, Math.ceil(view.c1) - Math.floor(view.c0)));
  const sums = binned(columns, rows), image = context.createImageData(columns, rows);
  let most = 1;
  for (let place = 0; place < columns * rows; place++) most = Math.max(most, sums[0][place] + sums[1][place] + sums[2][place]);
  for (let place = 0; place < columns * rows; place++) {
    const all = sums[0][place] + sums[1][place] + sums[2][place], strength = all ? Math.max(0.12, (all / most) ** 0.7) : 0;
    for (let channel = 0; channel < 3; channel++) {
      const mixed = all ? (sums[0][place] * colours[1][channel] + sums[1][place] * colours[2][channel] + sums[2][place] * colours[3][channel]) / all : 0;
      image.data[4 * place + channel] = colours[0][channel] * (1 - strength) + mixed * strength;
    }
    image.data[4 * place + 3] = 255;
  }
  const scratch = Object.assign(document.createElement("canvas"), { width: columns, height: rows });
  scratch.getContext("2d").putImageData(image, 0, 0);
  context.fillStyle = css(colours[0]);
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.imageSmoothingEnabled = false;
  context.drawImage(scratch, left, 0, width, canvas.height);
  sideWords(context, canvas, ratio);
  drawDrag(context, ratio);
  drawBars();
}

function sideWords(context, canvas, ratio) {
  const { view } = raster;
  context.fillStyle = ink("--muted");
  context.font = `${11.5 * ratio}px system-ui, sans-serif`;
  context.textAlign = "right";
  const whole = view.c0 <= 0 && view.c1 >= raster.clients, at = LEFT * ratio - 6 * ratio;
  context.fillText(whole ? "frequent" : grouped(Math.floor(view.c0) + 1), at, 12 * ratio);
  context.fillText(whole ? "rare" : grouped(Math.min(raster.clients, Math.ceil(view.c1))), at, canvas.height - 4 * ratio);
  context.save();
  context.translate(at - 6 * ratio, canvas.height / 2);
  context.rotate(-Math.PI / 2);
  context.textAlign = "center";
  context.fillText(whole ? `${grouped(raster.clients)} ${raster.what}` : `${raster.what} by rank`, 0, 0);
  context.restore();
}

// Of every round, how many clients are in which state.
function perRound(r0, r1) {
  const { cells, clients, first } = raster, found = [];
  for (let round = r0; round < r1; round++) {
    const sums = [0, 0, 0, 0], base = (round - first + 1) * clients;
    for (let client = 0; client < clients; client++) sums[cells[base + client]]++;
    found.push(sums);
  }
  return found;
}

function hatched(context, kind, colour, ratio) {
  if (kind === COUNTED) return css(colour);
  const tile = Object.assign(document.createElement("canvas"), { width: 6 * ratio, height: 6 * ratio }), brush = tile.getContext("2d");
  brush.fillStyle = brush.strokeStyle = css(colour);
  brush.scale(ratio, ratio);
  if (kind === REJECTED) for (const shift of [-6, 0, 6]) { brush.beginPath(); brush.moveTo(shift, 6); brush.lineTo(shift + 6, 0); brush.lineWidth = 2; brush.stroke(); }
  else { brush.fillRect(0, 0, 3, 3); brush.fillRect(3, 3, 3, 3); }
  return context.createPattern(tile, "repeat");
}

function drawBars() {
  const canvas = $("bars"), ratio = fit(canvas), context = canvas.getContext("2d"), { view } = raster;
  context.clearRect(0, 0, canvas.width, canvas.height);
  const r0 = Math.max(Math.floor(view.r0), raster.first - 1), r1 = Math.min(Math.ceil(view.r1), raster.rounds);
  if (r1 <= r0) return;
  const left = LEFT * ratio, width = canvas.width - left - RIGHT * ratio, bottom = canvas.height - 20 * ratio, top = 8 * ratio, colours = stateColours();
  const columns = Math.max(1, Math.min(Math.floor(width), r1 - r0)), means = Array.from({ length: columns }, () => [0, 0, 0, 0, 0]);
  perRound(r0, r1).forEach((sums, nth) => {
    const bin = means[Math.min(columns - 1, Math.floor((nth / (r1 - r0)) * columns))];
    sums.forEach((count, kind) => { bin[kind] += count; });
    bin[4]++;
  });
  const totals = means.map((bin) => (bin[1] + bin[2] + bin[3]) / Math.max(1, bin[4])), most = Math.max(1, ...totals);
  const x = (round) => left + ((round - view.r0) / (view.r1 - view.r0)) * width, scale = (bottom - top) / most;
  const edge = (nth) => x(r0 + (nth / columns) * (r1 - r0)), heights = new Float64Array(columns);
  for (const [kind] of STATES) {
    context.fillStyle = hatched(context, kind, colours[kind], ratio);
    means.forEach((bin, nth) => {
      const height = (bin[kind] / Math.max(1, bin[4])) * scale;
      context.fillRect(edge(nth), bottom - heights[nth] - height, Math.max(1, edge(nth + 1) - edge(nth)), height);
      heights[nth] += height;
    });
  }
  context.fillStyle = context.strokeStyle = ink("--muted");
  context.font = `${11.5 * ratio}px system-ui, sans-serif`;
  context.textAlign = "right";
  for (const tick of ticks(0, most, 3)) context.fillText(number(tick), left - 6 * ratio, bottom - tick * scale + 4 * ratio);
  context.textAlign = "center";
  for (const tick of ticks(Math.max(1, view.r0 + 1), view.r1, Math.max(2, width / ratio / 90))) if (Number.isInteger(tick)) context.fillText(grouped(tick), x(tick - 0.5), canvas.height - 6 * ratio);
  context.fillRect(left, bottom, width, ratio);
  const counted = means.reduce((sum, bin) => sum + bin[COUNTED], 0) / (r1 - r0);
  canvas.setAttribute("aria-label", `Participants per round, rounds ${r0 + 1} to ${r1}: on average ${number(counted, 3)} counted`);
}
