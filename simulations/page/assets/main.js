// Where the data come from: the server, asked again and again, or this file itself.
const LIVE_SECONDS = 1, IDLE_SECONDS = 3;
let version = 0, detailVersion = -1, failed = false;

function take(answer) {
  version = answer.version;
  state.now = answer.now;
  state.ids = answer.ids;
  state.stops = answer.stops ?? false;
  for (const run of answer.runs) state.runs.set(run.id, run);
  const title = panelNow()?.title;
  if (answer.panels) state.panels = answer.panels;
  state.panel = Math.max(0, state.panels.findIndex((panel) => panel.title === title));
  keep($("place"), answer.name);
  document.title = `${answer.name} – fedau`;
  if (!state.ids.includes(state.run)) choose(firstRun(), false);
  const notice = state.ids.length ? "" : "There are no runs here yet. They appear as soon as one begins, for example by: fedau run";
  $("notice").hidden = !notice;
  keep($("notice"), notice);
  showRuns();
  if (answer.runs.length || answer.panels) showComparison();
}

// One that is going on, else one whose weights there are to be seen.
function firstRun() {
  const runs = state.ids.map((id) => state.runs.get(id)).filter(Boolean);
  const going = runs.find((run) => run.status === "running"), fedau = runs.find((run) => run.method?.startsWith("fedau"));
  return (going ?? fedau ?? runs[0])?.id ?? null;
}

function showComparison() {
  showCurves();
  showServed();
}

function choose(id, byHand) {
  state.run = id;
  state.client = null;
  $("client-number").value = "";
  detailVersion = -1;
  details = null;
  clients = {};
  resetRaster();
  $("chosen").hidden = !id;
  const panel = state.panels.findIndex((one) => one.lines.some((line) => line.runs.includes(id)));
  if (byHand && panel >= 0) { state.panel = panel; showComparison(); }
  if (byHand) { showRuns(); load(); }
}

async function load() {
  const run = state.runs.get(state.run);
  if (!run) return;
  const id = run.id;
  const [found, rounds] = state.report ? await inside(id) : await asked(id);
  if (id !== state.run) return;
  if (found) {
    details = found;
    // In a file, runs name the one that has the same numbers.
    const own = (key, value) => (state.report && typeof value === "string" ? state.report.details[value].clients[key] : value);
    clients = Object.fromEntries(Object.entries(found.clients).map(([key, value]) => [key, floats(own(key, value))]));
  }
  if (rounds?.clients) addRounds(rounds);
  if (raster.clients && (found || rounds)) orderClients(clients.probability);
  showParticipation();
  showWeights();
  showFederation();
  showSettings();
}

async function asking(path) {
  const answer = await fetch(`api/${path}`);
  if (!answer.ok) throw Object.assign(new Error(await answer.text()), { name: "ServerError" });
  return answer.json();
}

async function asked(id) {
  const run = state.runs.get(id), newer = run.version !== detailVersion || detailVersion < 0;
  const query = `id=${encodeURIComponent(id)}`;
  const found = newer ? await asking(`run?${query}`) : null;
  if (found) detailVersion = run.version;
  const rounds = await asking(`raster?${query}&after=${raster.rounds}`);
  return [found, rounds.clients ? { ...rounds, packed: bytes(rounds.packed) } : null];
}

async function inside(id) {
  const block = await inflated(state.report.rasters[id]);
  if (!block) return [state.report.details[id], null];
  const end = block.indexOf(10), head = JSON.parse(new TextDecoder().decode(block.subarray(0, end)));
  return [state.report.details[id], { ...head, packed: block.subarray(end + 1) }];
}

function showSettings() {
  const settings = Object.entries(details?.settings ?? {});
  $("settings").hidden = !settings.length;
  $("settings").querySelector("dl").replaceChildren(...settings.map(([key, value]) => el("div", {}, el("dt", {}, key), el("dd", {}, value === "" ? "–" : String(value)))));
}

async function poll() {
  try {
    const answer = await asking(`runs?since=${failed ? 0 : version}`);
    failed = false;
    take(answer);
    await load();
    const going = [...state.runs.values()].filter((run) => run.status === "running").length;
    keep($("live"), going ? `live: ${going} running` : "live: nothing is running");
  } catch (error) {
    failed = true;
    keep($("live"), `${error.name === "ServerError" ? error.message : "The server does not answer"}; this is what it said last.`);
  }
  const busy = [...state.runs.values()].some((run) => run.status === "running");
  setTimeout(poll, 1000 * (busy ? LIVE_SECONDS : IDLE_SECONDS));
}

async function start() {
  startTheme();
  startCurves();
  startZoom();
  startClients();
  showStates();
  $("run").addEventListener("change", () => choose($("run").value, true));
  const data = await inflated("data");
  if (!data) {
    state.token = new URLSearchParams(location.hash.slice(1)).get("token");
    keep($("made"), "this page follows runs on this machine");
    return poll();
  }
  state.report = JSON.parse(new TextDecoder().decode(data));
  keep($("live"), `a report of ${state.report.made.replace("T", " ").slice(0, 16)}`);
  keep($("made"), "all data are in this file");
  take(state.report);
  await load();
}

start().catch((error) => {
  $("notice").hidden = false;
  keep($("notice"), `This page cannot show its data: ${error.message}`);
});
