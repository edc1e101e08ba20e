// An answer shown, two beside each other, and the page's story.
const state = {answer: null, query: null, pinned: null};

function sentence(summary) {
  const at = summary.indexOf(":");
  return el("p", {class: "sentence"}, el("b", {}, summary.slice(0, at + 1)), summary.slice(at + 1));
}

function fileView(name, text) {
  const pre = el("pre", {tabindex: 0, "aria-label": name}, text), copy = el("button", {type: "button"}, "Copy");
  copy.addEventListener("click", async () => {
    try { await navigator.clipboard.writeText(text); copy.textContent = "Copied"; } catch { getSelection().selectAllChildren(pre); copy.textContent = "Selected"; }
    setTimeout(() => { copy.textContent = "Copy"; }, 1500);
  });
  return el("div", {}, el("div", {class: "file"}, el("strong", {}, name), copy), pre);
}

const LAUNCH = {command: "command", slurm: "job.sbatch", script: "train.py", accelerate_config: "accelerate.yaml", deepspeed_config: "deepspeed.json", training_arguments: "TrainingArguments"};

function launchView(launch) {
  const files = Object.entries(LAUNCH).filter(([key]) => launch[key]).map(([key, name]) =>
    fileView(name, typeof launch[key] === "string" ? launch[key] : JSON.stringify(launch[key], null, 2)));
  const box = el("details", {}, el("summary", {}, "Files to start it"), ...files);
  if (launch.notes?.length) box.append(el("ul", {class: "plain"}, ...launch.notes.map((n) => el("li", {}, n))));
  return box;
}

function adviceView(answer, query) {
  if (!answer.advice?.length) return null;
  return el("div", {}, el("h2", {}, answer.fits ? "What else was tried" : "Ways out, tried"),
    el("ul", {class: "advice"}, ...answer.advice.map((a) => el("li", {}, `${a.why} `, el("a", {href: `/?${changed(query, a.change)}`, "aria-label": `Ask this: ${changeInWords(a.change)}`}, "Ask this")))));
}

function figures(c) {
  if (!c?.memory) return null;
  const m = c.memory, rows = [
    [term("device-bytes", "in nvidia-smi"), m.device_bytes && `${gib(m.device_bytes)} GiB`], [term("peak-reserved", "peak reserved"), m.peak_reserved_bytes && `${gib(m.peak_reserved_bytes)} GiB`],
    [term("peak-allocated", "peak allocated"), `${gib(m.peak_allocated_bytes)} GiB`], [term("phase", "at"), m.peak_phase],
    [term("micro-batch"), c.micro_batch_size && `${c.micro_batch_size}${c.max_micro_batch_size ? `, largest ${c.max_micro_batch_size}` : ""}`], [term("global-batch", "global batch"), c.global_batch_size],
    ["largest batch", c.max_batch_size], ["longest context", c.max_context_tokens && `${count(c.max_context_tokens)} tokens`],
    [c.weights ? "the whole" : "a step", c.throughput && `${c.throughput.step_s.toPrecision(3)} s`], [term("mfu"), c.throughput && `${(100 * c.throughput.mfu).toFixed(0)} %`],
    [term("offload", "host memory"), m.host_bytes_per_node ? `${gib(m.host_bytes_per_node)} GiB a node` : ""],
  ].filter(([, value]) => value);
  return el("dl", {class: "figures"}, ...rows.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, String(value)))));
}

const notes = (title, lines) => lines.length ? el("details", {}, el("summary", {}, title), el("ul", {class: "plain"}, ...lines.map((t) => el("li", {}, t)))) : null;

// What was asked and is in no figure, each with the question that leaves it out.
function outsideView(answer, query) {
  if (!answer.not_in_figures.length) return null;
  const box = el("p", {class: "warn"}, "Not in the figures: ");
  answer.not_in_figures.forEach((pointer, i) => {
    const name = pointer.slice(pointer.lastIndexOf("/") + 1), without = new URLSearchParams(query);
    for (const given of [...without.keys()]) if (given === name || given.endsWith(`.${name}`) || given.startsWith(`${name}.`)) without.delete(given);
    box.append(i ? "; " : "", name.replaceAll("_", " "));
    if (String(without) !== String(query)) box.append(" (", el("a", {href: `/?${without}`}, `ask without ${name}`), ")");
  });
  box.append(".");
  return box;
}

// `whole`: with charts; the pinned one has none.
function show(section, answer, query, whole) {
  const first = answer.recommendation ?? answer.candidates[0];
  section.className = `answer ${answer.fits ? "fits" : "not"}`;
  section.replaceChildren(el("p", {class: "question"}, brief(query)), sentence(answer.summary), ...answer.warnings.map((w) => el("p", {class: "warn"}, w)));
  for (const part of [outsideView(answer, query), figures(first), bars(answer, query), adviceView(answer, query)]) if (part) section.append(part);
  if (answer.recommendation?.launch) section.append(launchView(answer.recommendation.launch));
  const place = el("div");
  if (whole && first?.memory) {
    section.append(place);
    if (first.micro_batch_size) {
      section.append(whatIf(answer, query));
      showTimeline(place, query, first.memory.capacity_bytes);
    }
  }
  for (const part of [notes(`Assumptions (${answer.assumptions.length})`, answer.assumptions)]) if (part) section.append(part);
  section.hidden = false;
}

async function showTimeline(place, query, capacity) {
  const asked = new URLSearchParams(query);
  asked.set("timeline", "true");
  asked.set("top", "1");
  try {
    const t = (await get(asked)).timeline;
    if (!t || !place.isConnected) return;
    const {section, show: draw} = timelineView(t, capacity);
    place.append(section, el("p", {}, el("a", {href: `/estimate/snapshot?${query}`, download: "snapshot.pickle"}, "The same as a PyTorch memory snapshot"), ", for pytorch.org/memory_viz"));
    draw();
  } catch { /* the rest of the answer stands */ }
}

function say(text, bad) {
  $("#status").textContent = text;
  $("#status").className = bad ? "bad" : "";
}

let asked = 0;

async function ask(query, keep = true) {
  const mine = ++asked;
  say("Estimating…");
  try {
    const answer = await get(query);
    if (mine !== asked) return;
    state.answer = answer;
    state.query = query;
    say("");
    $("#heard").textContent = answer.summary;
    document.title = `${brief(query)} · llmemd`;
    if (keep) history.pushState(null, "", link(query));
    remember(query);
    show($("#answer"), answer, query, true);
    $("#pin").hidden = false;
    performance.mark("answered");
  } catch (error) {
    if (mine !== asked) return;
    $("#answer").hidden = true;
    say(error.message, true);
    $("#status").append(...mended(query, error.problem ?? {}).flatMap(([text, next]) => [" ", el("a", {href: `/?${next}`}, text)]));
  }
}

// The questions that were probably meant.
function mended(query, {code, pointer, parameter, did_you_mean: meant, suggestions}) {
  if (code === "no-default-targets") return [["Ask with all linear layers", changed(query, {"lora.target_modules": "all-linear"})]];
  if (!meant || !query.has(parameter) || /[{\n]/.test(query.get(parameter))) return []; // within a file of one's own
  if (code === "unknown-member" && pointer !== `/${parameter}`) return [];
  if (code === "unknown-member") return [[`Ask with ${meant}`, new URLSearchParams([...query].map(([name, value]) => [name === parameter ? meant : name, value]))]];
  return (suggestions ?? [meant]).map((name) => [`Ask with ${name}`, changed(query, {[parameter]: name})]);
}

// --- two questions ---------------------------------------------------------------------------------------------------------------

async function pin(query) {
  if (!query) {
    state.pinned = null;
    $("#pinned").hidden = true;
    $("#results").className = "";
    $("#pin").textContent = "Compare with another question";
    return;
  }
  const answer = state.query && String(state.query) === String(query) ? state.answer : await get(query);
  state.pinned = {query: String(query)};
  show($("#pinned"), answer, query, false);
  $("#results").className = "two";
  $("#pin").textContent = "Stop comparing";
}

$("#pin").addEventListener("click", async () => {
  await pin(state.pinned ? null : state.query);
  history.replaceState(null, "", link(state.query));
  say(state.pinned ? "Now change the question and ask again: the answers stand side by side." : "");
});

// --- begin -------------------------------------------------------------------------------------------------------------------------

function begin() {
  const query = new URLSearchParams(location.search), vs = new URLSearchParams(location.hash.slice(1)).get("vs");
  fillForm(query);
  if (vs) pin(new URLSearchParams(vs)).catch((error) => say(error.message, true));
  else if (state.pinned) pin(null);
  if (query.get("model")) ask(query, false);
}

form.addEventListener("submit", (event) => { event.preventDefault(); ask(readForm()); });
document.addEventListener("click", (event) => {
  const a = event.target.closest?.("a[href^='/?'], a[href^='/answer?']");
  if (!a || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  const query = new URL(a.href).searchParams;
  fillForm(query);
  ask(query);
  scrollTo({top: 0});
});
addEventListener("popstate", begin);
begin();
showRecent();
suggest().catch(() => { /* completion is a convenience */ });
