// Clients × rounds on a canvas.
const LOST = 1, REJECTED = 2, COUNTED = 3;
const STATES = [[COUNTED, "counted"], [REJECTED, "rejected"], [LOST, "there, but not in the sum"]];
const LEFT = 62, RIGHT = 16, MOST_ROWS = 2048;

const EMPTY = { cells: new Uint8Array(0), clients: 0, first: 1, rounds: 0, order: null, known: false, sums: [], blocks: null, view: null };
const raster = { ...EMPTY, what: "clients" };

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
  Object.assign(raster, EMPTY, { sums: [] });
}

// Adds rounds; whoever looks at all of them goes on doing so.
function addRounds(found) {
  const fresh = unpackRounds(found.packed, found.clients), follows = raster.clients === found.clients && found.first === raster.rounds + 1;
  const whole = !raster.view || (raster.view.r1 >= raster.rounds && raster.view.r0 <= raster.first - 1);
  if (!follows) Object.assign(raster, { cells: fresh, clients: found.clients, first: found.first, order: null, sums: [], blocks: null });
  else if (fresh.length) {
    const joined = new Uint8Array(raster.cells.length + fresh.length);
    joined.set(raster.cells);
    joined.set(fresh, raster.cells.length);
    raster.cells = joined;
  }
  for (let base = 0; base < fresh.length; base += found.clients) {
    const sums = [0, 0, 0, 0];
    for (let client = base; client < base + found.clients; client++) sums[fresh[client]]++;
    raster.sums.push(sums);
  }
  raster.rounds = found.rounds;
  raster.replayed = found.replayed;
  if (whole || !follows) raster.view = wholeView();
}

const wholeView = () => ({ r0: raster.first - 1, r1: Math.max(raster.rounds, raster.first), c0: 0, c1: Math.max(1, raster.clients) });

// The most frequent client first: by its probability where that is known, else as it came.
function orderClients(probability) {
  const known = probability?.length === raster.clients;
  if (!raster.order || !known || !raster.known) {
    const frequency = known ? probability : countsByClient();
    raster.order = Uint32Array.from({ length: raster.clients }, (_, client) => client).sort((a, b) => frequency[b] - frequency[a] || a - b);
    raster.blocks = null;
  }
  raster.known = known;
  addBlocks();
}

// Of many clients, how many of some rows that follow each other are in which state: what a pixel
// of the whole picture needs, without a look at each of millions of cells.
function addBlocks() {
  const { cells, clients, order } = raster;
  if (clients <= MOST_ROWS) return;
  const size = Math.ceil(clients / MOST_ROWS), count = Math.ceil(clients / size), rounds = cells.length / clients;
  const old = raster.blocks ?? { data: new Uint16Array(0) }, data = new Uint16Array(rounds * count * 3);
  data.set(old.data);
  for (let round = old.data.length / (count * 3); round < rounds; round++)
    for (let row = 0, base = round * clients; row < clients; row++) {
      const cell = cells[base + order[row]];
      if (cell) data[(round * count + Math.floor(row / size)) * 3 + cell - 1]++;
    }
  raster.blocks = { size, count, data };
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
  const { clients, first, view, blocks } = raster, sums = [1, 2, 3].map(() => new Uint32Array(columns * rows));
  // Blocks, if none is higher than a pixel.
  const size = blocks && (view.c1 - view.c0) / rows >= blocks.size ? blocks.size : 1;
  const r0 = Math.max(Math.floor(view.r0), first - 1), r1 = Math.min(Math.ceil(view.r1), raster.rounds);
  const c0 = Math.max(0, Math.floor(view.c0 / size)), c1 = Math.min(Math.ceil(clients / size), Math.ceil(view.c1 / size));
  const share = (place, start, end, count) => Math.min(count - 1, Math.max(0, Math.floor(((place - start) / (end - start)) * count)));
  const rowOf = Uint32Array.from({ length: c1 - c0 }, (_, nth) => share((c0 + nth + 0.5) * size, view.c0, view.c1, rows) * columns);
  const add = size > 1 ? addBlock : addCells;
  for (let round = r0; round < r1; round++) add(sums, round - first + 1, c0, c1, rowOf, share(round + 0.5, view.r0, view.r1, columns));
  return sums;
}

function addCells(sums, round, c0, c1, rowOf, column) {
  const { cells, clients, order } = raster, base = round * clients;
  for (let row = c0; row < c1; row++) {
    const cell = cells[base + order[row]];
    if (cell) sums[cell - 1][rowOf[row - c0] + column]++;
  }
}

function addBlock(sums, round, c0, c1, rowOf, column) {
  const { data, count } = raster.blocks;
  for (let block = c0, place = (round * count + c0) * 3; block < c1; block++, place += 3)
    for (let kind = 0; kind < 3; kind++) sums[kind][rowOf[block - c0] + column] += data[place + kind];
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
