// The list of runs: how far each is, how fast, and how it ended.
const SILENT_SECONDS = 120;

function statusOf(run) {
  const silent = state.now - run.changed;
  const slow = run.speed ? 20 / run.speed : 0;
  if (run.status === "running" && !state.report && silent > Math.max(SILENT_SECONDS, slow)) return ["silent", `running? silent for ${duration(silent)}`];
  return [run.status, run.status === "none" ? "starting" : run.status];
}

function lookOf(id) {
  for (const panel of state.panels) for (const line of panel.lines) if (line.runs.includes(id)) return line;
  return null;
}

function showRuns() {
  const runs = state.ids.map((id) => state.runs.get(id)).filter(Boolean);
  $("runs").hidden = !runs.length;
  keyed($("runs").querySelector("tbody"), runs, (run) => run.id, makeRow, updateRow);
  keyed($("run"), runs, (run) => run.id, (run) => el("option", { value: run.id }, run.id), () => {});
  if (state.run) $("run").value = state.run;
}

function makeRow(run) {
  return el("tr", {},
    el("td", {}, el("button", { type: "button", class: "name", onclick: () => choose(run.id, true) }), el("div", { class: "what" })),
    el("td", {}, el("span", { class: "status" }), el("div", { class: "said" }), el("div", { class: "problems" })),
    el("td", {}, el("progress", { max: 1 }), el("div", { class: "pace" }), el("button", { type: "button", class: "stop", hidden: "", onclick: (event) => stop(run.id, event.target) }, "Stop after this round")),
    el("td", { class: "score" }));
}

function updateRow(row, run) {
  const [kind, words] = statusOf(run), find = (name) => row.querySelector(name);
  row.setAttribute("aria-current", String(run.id === state.run));
  keep(find(".name"), run.id === "." ? run.name : run.id);
  keep(find(".what"), run.method ? `${run.method}, seed ${run.seed}, ${grouped(run.clients)} clients${run.secure ? ", secure sum" : ""}${run.deployed ? ", deployment" : ""}` : "");
  const status = find(".status");
  status.className = `status ${kind}`;
  keep(status, words);
  keep(find(".said"), run.status === "running" ? "" : run.sentence);
  keyed(find(".problems"), run.problems, (text) => text, (text) => el("div", { class: "problem" }, text), () => {});
  const bar = find("progress");
  bar.value = run.rounds ? Math.min(1, run.round / run.rounds) : 0;
  bar.hidden = !run.rounds;
  bar.setAttribute("aria-label", `progress of ${run.id}`);
  const pace = run.speed ? ` · ${number(run.speed, 3)} rounds/s · ${duration(run.left)} left` : "";
  keep(find(".pace"), run.rounds ? `${grouped(run.round)} of ${grouped(run.rounds)}${pace}` : "");
  const last = run.curves.test_score?.findLast((value) => value !== null);
  keep(find(".score"), last === undefined ? "" : run.percent ? percent(last) : number(last));
  find(".stop").hidden = !(state.stops && state.token && ["running", "starting"].includes(run.status));
}

async function stop(id, button) {
  button.disabled = true;
  try {
    const answer = await fetch(`api/stop?id=${encodeURIComponent(id)}`, { method: "POST", headers: { "X-Token": state.token } });
    button.textContent = answer.ok ? "Stopping …" : await answer.text();
  } catch {
    button.textContent = "The server does not answer.";
  }
}
