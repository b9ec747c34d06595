"use strict";

// Shows what the admin port's /debug pages tell. Everything that comes from there becomes text nodes, never markup.

const POLL_MS = 2000;
const GRAPH_EVERY = 15; // polls
const HITS_WINDOW_MS = 60_000;

const at = (id) => document.getElementById(id);
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const tenths = new Intl.NumberFormat("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 });
const score = new Intl.NumberFormat("en", { minimumFractionDigits: 3, maximumFractionDigits: 3 });
const percent = (share) => (share === null ? "–" : `${whole.format(100 * share)} %`);

/** An element with properties and children; strings become text. */
function h(tag, props, ...children) {
  const element = Object.assign(document.createElement(tag), props);
  element.append(...children.flat().filter((child) => child !== null));
  return element;
}
const cell = (text, className = "") => h("td", { className }, text);
const number = (value) => cell(value === null ? "–" : whole.format(value), "n");
/** An endpoint's name, without the usual namespace. */
const short = (endpoint) => endpoint.replace(/^default\//, "");
const fact = (name, value) => h("div", {}, h("dt", {}, name), h("dd", {}, value));

function duration(micros) {
  if (micros >= 6e7) return `${whole.format(micros / 6e7)} min`;
  if (micros >= 1e6) return `${tenths.format(micros / 1e6)} s`;
  if (micros >= 1e4) return `${tenths.format(micros / 1e3)} ms`;
  return `${tenths.format(micros)} µs`;
}
const age = (seconds) => (seconds < 1 ? `${whole.format(1000 * seconds)} ms` : duration(1e6 * seconds));
const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1);
const sum = (object) => Object.values(object).reduce((total, value) => total + value, 0);
const clock = (time) => new Date(time).toLocaleTimeString("en-GB", { hour12: false });

// --- what is asked

let token = sessionStorage.getItem("token");

class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function ask(path) {
  const answer = await fetch(path, { headers: token ? { Authorization: `Bearer ${token}` } : {}, cache: "no-store" });
  if (!answer.ok) throw new Refused(answer.status, (await answer.text()).trim());
  return answer.json();
}

/** The value of `request`, or `otherwise` when there is none to be had. */
async function orElse(request, otherwise) {
  try {
    return await request;
  } catch (error) {
    if (error instanceof Refused && (error.status === 404 || error.status === 503)) return otherwise;
    throw error;
  }
}

// --- fleet

const hitSamples = []; // {time, tokens: Map endpoint → [prompt, cached]}, the oldest first

/** Cached share of an endpoint's prompt tokens since the oldest sample, or since the start. */
function hitShare(endpoint) {
  const before = hitSamples[0]?.tokens.get(endpoint.endpoint) ?? [0, 0];
  const [prompt, cached] = [endpoint.promptTokens - before[0], endpoint.cachedTokens - before[1]];
  if (prompt > 0) return cached / prompt;
  return endpoint.promptTokens > 0 ? endpoint.cachedTokens / endpoint.promptTokens : null;
}

function sampleHits(endpoints) {
  const time = Date.now();
  while (hitSamples.length > 0 && time - hitSamples[0].time > HITS_WINDOW_MS) hitSamples.shift();
  hitSamples.push({ time, tokens: new Map(endpoints.map((e) => [e.endpoint, [e.promptTokens, e.cachedTokens]])) });
}

/** Tokens in flight by endpoint, from the state of the plugin that counts them. */
function tokensInFlight(states) {
  const ledger = Object.values(states.plugins).find((plugin) => plugin.type === "inflight-load-producer");
  return ledger?.state && new Map(ledger.state.endpoints.map((e) => [e.endpoint, e.tokens]));
}

function bar(share) {
  const fill = h("i");
  fill.style.width = `${Math.min(Math.max(100 * share, 0), 100)}%`;
  return [h("span", { className: "bar" }, fill), h("span", { className: "share" }, percent(share))];
}

function healthCell(e) {
  const look = { healthy: "good", ejected: "bad", "half-open": "warn" }[e.health] ?? "";
  const probe = e.secondsToProbe > 0 ? `, probe in ${tenths.format(e.secondsToProbe)} s` : "";
  return cell(e.health + probe, look);
}

function fleetRow(e, tokens) {
  const labels = Object.entries(e.labels).map(([key, value]) => h("span", { className: "label", title: `${key}=${value}` }, `${key}=${value}`));
  const scraped = e.metricsAgeSeconds !== null;
  return h("tr", {},
    h("td", { className: "name" }, short(e.endpoint), h("small", {}, short(e.endpoint) === e.address ? null : `${e.address} `, labels)),
    healthCell(e),
    number(e.openRequests),
    number(tokens ? tokens.get(e.endpoint) ?? 0 : null),
    number(scraped ? e.waiting : null),
    number(scraped ? e.running : null),
    scraped ? h("td", {}, bar(e.kvUsage)) : cell("–"),
    cell(percent(hitShare(e)), "n"),
    cell(scraped ? age(e.metricsAgeSeconds) : "never", "n soft"));
}

function showFleet(endpoints, states) {
  const tokens = tokensInFlight(states);
  fill("fleet", endpoints.map((e) => fleetRow(e, tokens)), "No endpoints are known.");
  const healthy = endpoints.filter((e) => e.health === "healthy").length;
  const prompt = endpoints.reduce((total, e) => total + e.promptTokens, 0);
  const cached = endpoints.reduce((total, e) => total + e.cachedTokens, 0);
  at("totals").replaceChildren(
    fact("Healthy", `${healthy} of ${endpoints.length}`),
    fact("In flight", whole.format(endpoints.reduce((total, e) => total + e.openRequests, 0))),
    fact("Waiting in servers", whole.format(endpoints.reduce((total, e) => total + e.waiting, 0))),
    fact("Prefix hits", percent(prompt > 0 ? cached / prompt : null)));
  sampleHits(endpoints);
}

/** Replaces the rows of a table, or says in one why there are none. */
function fill(id, rows, empty) {
  const table = at(id);
  const columns = table.tHead.rows[0].cells.length;
  table.tBodies[0].replaceChildren(...(rows.length > 0 ? rows : [h("tr", {}, h("td", { className: "empty", colSpan: columns }, empty))]));
}

// --- requests that wait

const ageIfKnown = (seconds) => (seconds === null ? "–" : age(seconds));

function bandRows(band) {
  const look = band.state === "open" ? "good" : "warn";
  const flows = band.flows.length > 0 ? band.flows : [null];
  return flows.map((flow, i) => h("tr", {},
    cell(i === 0 ? String(band.priority) : "", "n"), i === 0 ? cell(band.state, look) : cell(""), cell(i === 0 ? percent(band.ceiling) : "", "n"),
    cell(flow ? flow.id : "–", flow ? "name" : "soft"), number(flow ? flow.waiting : null), number(flow ? flow.tokens : null),
    cell(flow ? age(flow.oldestSeconds) : "–", "n"), cell(ageIfKnown(flow ? flow.expectedWaitSeconds : null), "n")));
}

function showQueues(state) {
  at("queues-part").hidden = state.bands.length === 0;
  if (state.bands.length === 0) return;
  at("queues-now").textContent = `pool ${percent(state.saturation)} full, ${whole.format(state.waiting)} wait`;
  fill("queues", state.bands.flatMap(bandRows), "");
}

// --- decisions

function destination(d) {
  if (d.endpoint) return h("span", { title: d.address }, short(d.endpoint));
  if (d.outcome === "left") return h("span", { className: "warn" }, "left before it was sent");
  return h("span", { className: "bad cut", title: d.error }, `${d.status} ${d.error}`);
}

function decisionRow(d) {
  const waited = d.wait ? d.microseconds.admit : 0;
  const worked = sum(d.microseconds) - waited;
  const open = () => explain(d.requestId);
  const rewritten = d.targetModel && d.targetModel !== d.model;
  return h("tr", { className: "open", onclick: open },
    cell(clock(d.time), "soft"),
    h("td", {}, h("button", { className: "link id cut", title: d.requestId }, d.requestId)),
    h("td", {}, h("span", { className: "cut" }, d.model || d.path, rewritten ? ` → ${d.targetModel}` : "")),
    h("td", {}, destination(d)),
    number(d.try),
    number(d.candidates || null),
    cell(waited > 0 ? duration(waited) : "–", "n"),
    cell(worked > 0 ? duration(worked) : "–", "n"));
}

let shownDecisions = "";

function showDecisions(decisions) {
  if (!decisions) return fill("decisions", [], "No decisions are kept: --decision-history is 0.");
  const now = JSON.stringify(decisions.map((d) => [d.requestId, d.time.slice(0, 22), d.try]));
  if (now === shownDecisions) return; // keeps focus and selection
  shownDecisions = now;
  fill("decisions", decisions.map(decisionRow), "No request has come yet.");
}

const heads = (...names) => h("thead", {}, h("tr", {}, names.map(([name, className = "", title = ""]) => h("th", { className, title }, name))));

function scoreTable(profile, endpoints) {
  const known = new Map(endpoints.map((e) => [e.endpoint, e]));
  const rows = profile.endpoints.map((row) => {
    const e = known.get(row.endpoint);
    const scores = row.scores.map((raw, i) => h("td", { className: "n" }, raw === null ? "NaN" : score.format(raw), " ", h("span", { className: "weighted" }, score.format(row.weighted[i]))));
    return h("tr", { className: row.endpoint === profile.picked[0] ? "picked" : "" },
      cell(short(row.endpoint)), number(e.waiting), number(e.running), cell(percent(e.kvUsage), "n"), scores, cell(score.format(row.total), "n"));
  });
  const scorers = profile.scorers.map((s) => [`${s.name} × ${s.weight}`, "n", "Score, and what it adds to the total"]);
  return h("div", { className: "scroll" }, h("table", {},
    heads(["Endpoint"], ["Waiting", "n"], ["Running", "n"], ["KV", "n"], ...scorers, ["Total", "n"]), h("tbody", {}, rows)));
}

const costs = (steps) => h("p", { className: "costs" }, steps.map(([name, micros]) =>
  h("span", {}, name, " ", h("b", {}, micros === null ? "failed" : duration(micros)))));
const costsOf = (steps) => steps.map((step) => [step.name, step.microseconds]);

function profileView(profile, endpoints) {
  if (!profile.ran) return [];
  const removed = profile.filters.filter((f) => f.removed.length > 0).map((f) =>
    h("p", {}, h("b", {}, f.name), ` removed ${f.removed.length}: `, h("span", { className: "soft" }, f.removed.map(short).join(", "))));
  const tie = profile.tie && profile.tie.turn ? `, turn ${profile.tie.turn}${profile.tie.turnBefore ? ` after ${profile.tie.turnBefore}` : ""}` : "";
  const equals = profile.tie ? h("p", { className: "soft" }, `${profile.tie.equals} share the highest total; number ${profile.tie.picked ?? "–"} of them was taken${tie}`) : null;
  return [
    h("h3", {}, `Profile ${profile.name}`, profile.primary ? null : h("span", { className: "soft" }, ` · ${profile.why}`)),
    ...removed,
    profile.endpoints.length > 0 ? scoreTable(profile, endpoints) : null,
    equals,
    costs(costsOf([...profile.filters, ...profile.scorers, profile.picker])),
  ];
}

/** How a request had to wait, and how things were when it came. */
function waitFacts(d) {
  const w = d.wait;
  if (!w) return [];
  return [
    fact("Waited", `${duration(d.microseconds.admit)}: ${w.why}`),
    fact("Ahead of it", `${whole.format(w.aheadInFlow)} in its flow, ${whole.format(w.aheadInBand)} in its band`),
    fact("Expected wait", w.expectedSeconds === null ? "not known" : age(w.expectedSeconds)),
    fact("Saturation", `${w.saturation}, its ceiling ${w.ceiling}`)];
}

function decisionView(d) {
  const refusal = d.endpoint || d.outcome === "left" ? null : fact("Answer", `${d.status} ${d.code}${d.dropReason ? ` · ${d.dropReason}` : ""}`);
  const title = d.endpoint
    ? [d.outcome === "served" ? "Was served by " : d.try > 1 ? `Try ${d.try}, after ${d.after}: went to ` : "Went to ", h("b", {}, short(d.endpoint)), short(d.endpoint) === d.address ? null : ` (${d.address})`]
    : [d.outcome === "left" ? "Left: " : d.outcome === "answered" ? `Answered after try ${d.try}: ` : "Refused: ", h("b", {}, d.error)];
  const body = d.profiles ? [
    d.profiles.flatMap((profile) => profileView(profile, d.endpoints)),
    h("h3", {}, "Cost"),
    costs(Object.entries(d.microseconds)),
    d.producers.length > 0 ? costs(costsOf(d.producers)) : null,
  ].flat() : [];
  return h("article", {},
    h("p", { className: "why" }, title),
    d.endpoint ? h("p", {}, `${sentence(d.why)}.`) : null,
    h("dl", { className: "facts" },
      fact("Time", new Date(d.time).toLocaleString("en-GB")), fact("Model", d.targetModel && d.targetModel !== d.model ? `${d.model} → ${d.targetModel}` : d.model || "–"),
      fact("Path", d.path), fact("Body", `${whole.format(d.bodyBytes)} bytes`), fact("Priority", String(d.priority)),
      fact("Since its head", `${d.millisecondsSinceHead} ms`), refusal, waitFacts(d)),
    d.cut ? h("p", { className: "warn" }, "Too large to be kept whole: raise --decision-history.") : null,
    ...body);
}

async function explain(requestId) {
  const dialog = at("detail");
  at("detail-title").replaceChildren("Request ", h("span", { className: "id" }, requestId));
  try {
    const { decisions } = await ask(`debug/decisions?request_id=${encodeURIComponent(requestId)}`);
    at("detail-body").replaceChildren(...decisions.map(decisionView));
  } catch (error) {
    at("detail-body").replaceChildren(h("p", { className: "bad" }, error.message));
  }
  if (!dialog.open) dialog.showModal();
}

// --- plugins

const step = (name, items) => items.length === 0 ? null : h("div", { className: "step" }, h("h4", {}, name),
  h("ul", {}, items.map((item) => typeof item === "string" ? h("li", {}, item) : h("li", {}, item.name, h("span", {}, `× ${item.weight}`)))));
const flow = (title, ...steps) => h("div", { className: "flow" }, h("h3", {}, title), h("div", { className: "steps" }, steps));

function showGraph(graph) {
  const request = flow("Every request",
    step("Hooks", graph.request), step("Admission", graph.detector ? [graph.detector] : []), step("Screeners", graph.screeners),
    step("Producers", graph.producers), step("Admitters", graph.admitters), step("Profiles, run by", [graph.handler]),
    step("Before it leaves", graph.preRequest), step("Answer", graph.response));
  const profiles = graph.profiles.map((p) => flow(`Profile ${p.name}`, step("Filters", p.filters), step("Scorers", p.scorers), step("Picker", [p.picker])));
  const rows = graph.plugins.map((p) => h("tr", {}, cell(p.name, "name"), cell(p.name === p.type ? "" : p.type, "soft"), cell(p.origin, "soft"),
    h("td", {}, h("code", {}, Object.entries(p.parameters ?? {}).map(([key, value]) => `${key}: ${JSON.stringify(value)}`).join(", ")))));
  const open = at("graph").querySelector("details")?.open ?? false;
  at("graph").replaceChildren(request, ...profiles, h("details", { open }, h("summary", {}, `All ${rows.length} plugins and their parameters`),
    h("table", {}, heads(["Name"], ["Type"], ["From"], ["Parameters"]), h("tbody", {}, rows))));
}

// --- polling

let polls = 0;

function say(text, bad = false) {
  at("state").textContent = text;
  at("state").className = bad ? "bad" : "";
}

async function poll() {
  const [{ endpoints }, states, decisions, queues] = await Promise.all([
    ask("debug/endpoints"), orElse(ask("debug/plugins/state"), { plugins: {} }), orElse(ask("debug/decisions?limit=50"), {}), ask("debug/flow")]);
  if (polls++ % GRAPH_EVERY === 0) {
    const graph = await orElse(ask("debug/plugins"), null);
    if (graph) showGraph(graph);
  }
  showFleet(endpoints, states);
  showQueues(queues);
  showDecisions(decisions.decisions);
}

async function run() {
  if (!document.hidden) {
    try {
      await poll();
      at("token").hidden = true;
      say("Live");
    } catch (error) {
      at("token").hidden = error.status !== 401;
      say(error instanceof Refused ? error.message : "No answer from the router", true);
    }
  }
  setTimeout(run, POLL_MS);
}

at("token").addEventListener("submit", (event) => {
  event.preventDefault();
  token = at("token-text").value;
  sessionStorage.setItem("token", token);
  say("…");
});
at("search").addEventListener("submit", (event) => {
  event.preventDefault();
  const id = at("search-text").value.trim();
  if (id) explain(id);
});
run();
