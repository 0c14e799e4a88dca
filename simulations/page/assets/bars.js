// Participants per round, below the raster and with its rounds.
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
  raster.sums.slice(r0 - raster.first + 1, r1 - raster.first + 1).forEach((sums, nth) => {
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
