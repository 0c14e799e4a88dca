// What everything else needs: elements, numbers as words, colours, and the state of the page.
const SVG = "http://www.w3.org/2000/svg";
const $ = (id) => document.getElementById(id);

const state = {
  runs: new Map(), ids: [], panels: [], hidden: new Set(), panel: 0, run: null, client: null,
  log: false, smooth: false, stops: false, report: null, now: 0,
};

// Texts of runs go through here and nowhere else: as text, never as HTML.
function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}
const el = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
const draw = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS(SVG, tag), attributes, children);

function keep(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// One child of `parent` per item, made once and then kept, so that focus and scrolling stay.
function keyed(parent, items, keyOf, make, update) {
  const old = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  items.forEach((item, place) => {
    const key = keyOf(item);
    let child = old.get(key);
    old.delete(key);
    if (!child) {
      child = make(item);
      child.dataset.key = key;
    }
    if (parent.children[place] !== child) parent.insertBefore(child, parent.children[place] ?? null);
    update(child, item);
  });
  for (const child of old.values()) child.remove();
}

function number(value, digits = 4) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (value !== 0 && (Math.abs(value) >= 1e6 || Math.abs(value) < 1e-4)) return value.toExponential(2);
  return String(Number(value.toPrecision(digits)));
}
const percent = (value) => (value === null || Number.isNaN(value) ? "–" : `${(100 * value).toFixed(1)} %`);
const grouped = (value) => value.toLocaleString("en-US");

function duration(seconds) {
  const whole = Math.round(seconds), minutes = Math.floor(whole / 60), hours = Math.floor(minutes / 60);
  if (whole < 60) return `${whole} s`;
  if (minutes < 60) return `${minutes} min ${whole % 60} s`;
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} days ${hours % 24} h`;
}

function bytes(text) {
  const binary = atob(text), found = new Uint8Array(binary.length);
  for (let place = 0; place < binary.length; place++) found[place] = binary.charCodeAt(place);
  return found;
}
const floats = (found) => (Array.isArray(found) ? Float32Array.from(found, (value) => value ?? NaN) : new Float32Array(bytes(found).buffer));

async function inflated(id) {
  const block = $(`block-${id}`);
  if (!block) return null;
  const stream = new Blob([bytes(block.textContent)]).stream();
  return new Uint8Array(await new Response(stream.pipeThrough(new DecompressionStream("deflate"))).arrayBuffer());
}

// The plots' colours; on a dark ground the darkest of them would not be seen.
const ON_DARK = { "#000000": "#e9eaec", "#0072B2": "#2f86c9", "#8C510A": "#b07a45", "#009E73": "#2fc79b" };
const isDark = () => document.documentElement.dataset.theme === "dark";
const shade = (colour) => (isDark() ? ON_DARK[colour] ?? colour : colour);
const ink = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const systemDark = matchMedia("(prefers-color-scheme: dark)");
const redraws = [];
function applyTheme() {
  const chosen = $("theme").value;
  document.documentElement.dataset.theme = chosen || (systemDark.matches ? "dark" : "light");
  for (const redraw of redraws) redraw();
}
function startTheme() {
  try { $("theme").value = localStorage.getItem("fedau-theme") ?? ""; } catch { /* a file may have no storage */ }
  $("theme").addEventListener("change", () => {
    try { localStorage.setItem("fedau-theme", $("theme").value); } catch { /* the choice lasts as long as the page */ }
    applyTheme();
  });
  systemDark.addEventListener("change", applyTheme);
  applyTheme();
}

// A line's look: `dashes` in units of its width, as in the plots.
const dashed = (line, width) => line.dashes.map((part) => part * width).join(" ");
const swatch = (line) => draw("svg", { width: 34, height: 10, "aria-hidden": "true" },
  draw("line", { x1: 1, x2: 33, y1: 5, y2: 5, stroke: shade(line.colour), "stroke-width": 2.4, "stroke-dasharray": dashed(line, 2.4) }));
