// A deployment: its nodes, what secure rounds lost where, and the privacy budget.
const COLUMNS = [
  ["node", (node) => node.id], ["last counted", (node) => (node.last ? `round ${grouped(node.last)}` : "never")],
  ["rounds counted", (node) => grouped(node.counted)], ["first asked", (node) => `round ${grouped(node.first)}`],
  ["weight ω", (node) => (node.weight === undefined ? "–" : number(node.weight, 4))], ["rejected", (node) => grouped(node.rejected)],
  ["last reason", (node) => (node.reason ? `round ${grouped(node.rejected_in)}: ${node.reason}` : "")],
];

function showFederation() {
  const nodes = details?.nodes ?? [], protection = details?.protection ?? {}, drops = Object.keys(protection).filter((key) => key.startsWith("dropouts_"));
  $("federation").hidden = !nodes.length && !protection.epsilon && !drops.length;
  if ($("federation").hidden) return;
  showBudget(protection);
  showDropouts(protection, drops);
  if (!nodes.length) return $("nodes").replaceChildren();
  const head = el("tr", {}, ...COLUMNS.map(([name], place) => el("th", { scope: "col", class: place && place < 6 ? "number" : null }, name)));
  const ordered = [...nodes].sort((a, b) => b.counted - a.counted || b.last - a.last);
  const rows = ordered.map((node) => el("tr", {}, ...COLUMNS.map(([, text], place) => el("td", { class: place && place < 6 ? "number" : null }, text(node)))));
  $("nodes").replaceChildren(el("table", {}, el("thead", {}, head), el("tbody", {}, ...rows)));
}

function showBudget(protection) {
  const spent = protection.epsilon?.findLast((value) => value !== null), left = protection.epsilon_left?.findLast((value) => value !== null);
  if (spent === undefined) return $("budget").replaceChildren();
  const whole = spent + (left ?? 0), words = left === undefined ? `ε spent: ${number(spent, 3)}` : `ε spent: ${number(spent, 3)} of ${number(whole, 3)}; ${number(left, 3)} left`;
  $("budget").replaceChildren(el("div", { class: "budget" }, left === undefined ? null : el("progress", { max: whole, value: spent, "aria-label": "privacy budget spent" }), words));
}

function showDropouts(protection, keys) {
  if (!keys.length) return $("dropouts").replaceChildren();
  const row = (key) => {
    const values = protection[key].filter((value) => value !== null), total = values.reduce((a, b) => a + b, 0);
    return [key.replace("dropouts_", ""), grouped(total), grouped(values.filter((value) => value > 0).length), grouped(values.at(-1) ?? 0)];
  };
  $("dropouts").replaceChildren(el("table", {}, el("caption", { class: "visually-hidden" }, "Dropouts of secure rounds by exchange"),
    el("thead", {}, el("tr", {}, ...["exchange of a secure round", "dropouts", "rounds with any", "in the last round"].map((name, place) => el("th", { scope: "col", class: place ? "number" : null }, name)))),
    el("tbody", {}, ...keys.map((key) => el("tr", {}, ...row(key).map((text, place) => el("td", { class: place ? "number" : null }, text)))))));
}
