// A chart of lines: axes, bands, a cross that reads values, by pointer and by keyboard.
const MARKS = [
  "M-4,0a4,4 0 1,0 8,0a4,4 0 1,0 -8,0", "M-3.6,-3.6h7.2v7.2h-7.2z", "M0,-4.6L4.4,3.4H-4.4z", "M0,-5L5,0L0,5L-5,0z",
  "M-4,-4L4,4M-4,4L4,-4", "M0,-5V5M-5,0H5", "M0,4.6L4.4,-3.4H-4.4z", "M-4.6,-1.5H4.6V1.5H-4.6z",
];

function ticks(low, high, count, log) {
  if (log) {
    const found = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++)
      for (const part of [1, 2, 5]) found.push(part * 10 ** power);
    const inside = found.filter((tick) => tick >= low * 0.999 && tick <= high * 1.001);
    const decades = inside.filter((tick) => Math.log10(tick) % 1 === 0);
    return inside.length > count + 2 && decades.length > 1 ? decades : inside.length ? inside : [low, high];
  }
  const span = high - low || 1, raw = span / count, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((part) => part * power).find((part) => part >= raw);
  const found = [];
  for (let tick = Math.ceil(low / step - 1e-9) * step; tick <= high + step * 1e-9; tick += step) found.push(Number(tick.toPrecision(12)));
  return found;
}

class Chart {
  constructor(host, label) {
    this.svg = draw("svg", { tabindex: "0", role: "img", "aria-label": label });
    this.tip = el("div", { class: "tip", role: "status", hidden: "" });
    this.label = label;
    this.cursor = null;
    this.clip = `clip-${Chart.count = (Chart.count ?? 0) + 1}`;
    host.classList.add("chart");
    host.append(this.svg, this.tip);
    this.svg.addEventListener("pointermove", (event) => this.point(event));
    this.svg.addEventListener("pointerleave", () => this.read(null));
    this.svg.addEventListener("blur", () => this.read(null));
    this.svg.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.redraw()).observe(host);
    redraws.push(() => this.redraw());
  }

  // series: label, colour, dashes, x, y, and optionally low, high (a band), marks, thin.
  show(series, options) {
    this.series = series;
    this.options = { height: 230, format: number, xFormat: (value) => grouped(value), xName: "round", ...options };
    this.redraw();
  }

  redraw() {
    const width = this.svg.parentNode.clientWidth;
    if (!this.series || !width) return;
    const { height, log, xLog, xTicks, format, xName } = this.options;
    this.box = { left: 52, right: width - 22, top: 8, bottom: height - (xTicks ? 46 : 36) };
    this.range();
    const { left, right, top, bottom } = this.box, parts = [];
    for (const tick of ticks(this.y0, this.y1, 5, log)) {
      const y = this.y(tick);
      parts.push(draw("line", { class: "grid", x1: left, x2: right, y1: y, y2: y }),
        draw("text", { x: left - 6, y: y + 4, "text-anchor": "end" }, format(tick)));
    }
    const marks = xTicks ?? ticks(this.x0, this.x1, Math.max(2, (right - left) / 85), xLog).filter((value) => !xName.endsWith("round") || Number.isInteger(value)).map((value) => ({ value, lines: [Number.isInteger(value) ? grouped(value) : number(value)] }));
    const room = (right - left) / Math.max(marks.length, 1), each = xTicks ? Math.ceil(40 / room) : 1;
    marks.forEach(({ value, lines }, place) => {
      if (place % each) return;
      lines.forEach((line, row) => parts.push(
        draw("text", { x: this.x(value), y: bottom + 15 + 13 * row, "text-anchor": "middle" }, line)));
    });
    parts.push(draw("line", { class: "axis", x1: left, x2: right, y1: bottom, y2: bottom }));
    if (!xTicks) parts.push(draw("text", { x: (left + right) / 2, y: height - 4, "text-anchor": "middle" }, xName));
    const inside = draw("g", { "clip-path": `url(#${this.clip})` }, ...this.series.flatMap((line) => this.line(line)));
    const clip = draw("clipPath", { id: this.clip }, draw("rect", { x: left, y: top - 5, width: Math.max(0, right - left + 6), height: bottom - top + 8 }));
    this.cross = draw("g");
    this.svg.replaceChildren(draw("defs", {}, clip), ...parts, inside, this.cross);
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.svg.setAttribute("height", height);
    this.svg.setAttribute("aria-label", this.words());
    if (this.cursor !== null) this.read(this.cursor);
  }

  line(series) {
    const found = [], colour = shade(series.colour), width = series.thin ? 1 : 2.2;
    const fine = series.x.map((_, place) => place).filter((place) => this.drawable(series.y[place]));
    const path = (places, values) => places.map((place, nth) => `${nth ? "L" : "M"}${this.x(series.x[place]).toFixed(1)},${this.y(values[place]).toFixed(1)}`).join("");
    if (series.high) {
      const banded = fine.filter((place) => series.high[place] !== null);
      const back = [...banded].reverse();
      if (banded.length > 1) found.push(draw("path", { d: `${path(banded, series.high)}L${path(back, series.low).slice(1)}Z`, fill: colour, opacity: 0.16 }));
    }
    found.push(draw("path", { class: "line", "data-label": series.label, d: path(fine, series.y), fill: "none", stroke: colour,
      "stroke-width": width, "stroke-dasharray": dashed(series, width), opacity: series.thin ? 0.6 : 1 }));
    const dots = series.mark !== undefined || fine.length === 1 ? fine : [];
    for (const place of dots) found.push(draw("path", { d: MARKS[(series.mark ?? 0) % MARKS.length], fill: colour, stroke: colour, "stroke-width": 1.6,
      transform: `translate(${this.x(series.x[place])},${this.y(series.y[place])})` }));
    return found;
  }

  drawable(value) {
    return value !== null && value !== undefined && Number.isFinite(value) && (!this.options.log || value > 0);
  }

  // Like the plots, the picture may leave out a steep start, if that makes the rest much clearer.
  range() {
    const all = [], later = [], xs = this.series.flatMap((line) => line.x);
    [this.x0, this.x1] = this.options.xRange ?? [Math.min(...xs), Math.max(...xs)];
    if (!xs.length) [this.x0, this.x1] = [0, 1];
    if (this.x0 === this.x1) [this.x0, this.x1] = [this.x0 - 1, this.x1 + 1];
    for (const line of this.series) line.y.forEach((value, place) => {
      if (!this.drawable(value)) return;
      all.push(value, ...(line.high?.[place] != null ? [line.low[place], line.high[place]].filter((edge) => this.drawable(edge)) : []));
      if (line.x[place] > this.x0 + 0.2 * (this.x1 - this.x0)) later.push(value);
    });
    let low = Math.min(...all), high = Math.max(...all);
    if (!all.length) [low, high] = [0, 1];
    if (this.options.focus && later.length > 8 && !this.options.log) {
      const cut = this.options.focus === "falls" ? [low, Math.max(...later)] : [Math.min(...later), high];
      if (cut[1] - cut[0] < (2 / 3) * (high - low)) [low, high] = cut;
    }
    if (this.options.log) [this.y0, this.y1] = [low / 1.05, high * 1.05];
    else {
      const margin = 0.05 * (high - low) || Math.abs(high) * 0.05 || 1;
      [this.y0, this.y1] = this.options.yRange ?? [low - margin, high + margin];
    }
  }

  x(value) {
    const { left, right } = this.box, scale = this.options.xLog ? Math.log : (v) => v;
    return left + ((scale(value) - scale(this.x0)) / (scale(this.x1) - scale(this.x0))) * (right - left);
  }

  y(value) {
    const { top, bottom } = this.box, scale = this.options.log ? Math.log : (v) => v;
    return bottom - ((scale(value) - scale(this.y0)) / (scale(this.y1) - scale(this.y0))) * (bottom - top);
  }

  stops() { return [...new Set(this.series.flatMap((line) => line.x))].sort((a, b) => a - b); }

  point(event) {
    const place = event.clientX - this.svg.getBoundingClientRect().left;
    const stops = this.stops();
    this.read(stops.length ? stops.reduce((a, b) => (Math.abs(this.x(b) - place) < Math.abs(this.x(a) - place) ? b : a)) : null);
  }

  key(event) {
    const stops = this.stops(), now = stops.indexOf(this.cursor);
    const to = { ArrowRight: now + 1, ArrowLeft: now < 0 ? stops.length - 1 : now - 1, Home: 0, End: stops.length - 1 }[event.key];
    if (to === undefined || !stops.length) { if (event.key === "Escape") this.read(null); return; }
    event.preventDefault();
    this.read(stops[Math.max(0, Math.min(stops.length - 1, to))]);
  }

  read(x) {
    this.cursor = x;
    this.cross?.replaceChildren();
    this.tip.hidden = x === null;
    if (x === null || !this.box) return;
    const { format, xFormat, xName } = this.options, rows = [];
    for (const line of this.series) {
      const place = line.x.indexOf(x);
      if (place >= 0) rows.push({ line, value: line.y[place], spread: line.high?.[place] != null ? line.high[place] - line.y[place] : null });
    }
    rows.sort((a, b) => (b.value ?? -Infinity) - (a.value ?? -Infinity));
    const at = this.x(x), { left, right, top, bottom } = this.box;
    this.cross.append(draw("line", { class: "cross", x1: at, x2: at, y1: top, y2: bottom }), ...rows.filter((row) => this.drawable(row.value)).map((row) =>
      draw("circle", { cx: at, cy: this.y(row.value), r: 4, fill: shade(row.line.colour), "clip-path": `url(#${this.clip})` })));
    this.tip.replaceChildren(el("div", {}, `${xName} ${xFormat(x)}`), ...rows.map(({ line, value, spread }) =>
      el("div", { "data-label": line.label }, swatch(line), line.label, el("b", {}, value === null ? "no number" : format(value, 5) + (spread ? ` ± ${format(spread, 2)}` : "")))));
    const onLeft = at > (left + right) / 2;
    this.tip.style.left = onLeft ? "auto" : `${at + 10}px`;
    this.tip.style.right = onLeft ? `${this.svg.clientWidth - at + 10}px` : "auto";
  }

  words() {
    const ends = this.series.map((line) => {
      const last = line.y.findLastIndex((value) => this.drawable(value));
      return last < 0 ? null : `${line.label} ${this.options.format(line.y[last])}`;
    });
    return `${this.label}: at the end ${ends.filter(Boolean).join(", ") || "nothing yet"}`;
  }
}
