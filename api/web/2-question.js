// The question: form, link and query are three ways to write it. What has no field stands in "other parameters"; nothing is dropped.
const form = $("#ask");
const presets = new Set();
const FIELDS = ["model", "gpu", "gpus", "nodes", "seq_len", "tuning", "micro_batch_size", "global_batch_size", "methods", "gradient_checkpointing", "lora.rank", "precision"];
const SAME = {gpus_per_node: "gpus", cluster: "gpu", "training.seq_len": "seq_len", "training.tuning": "tuning", "cluster.gpu": "gpu"};

const fold = (name) => name.toLowerCase().replace(/[\s_-]/g, "");

// Whose file it is: what only that tool writes.
const kindOf = (text) => /"?(zero_optimization|train_micro_batch_size_per_gpu|zero_allow_untested_optimizer)"?\s*:/.test(text) ? "deepspeed_config"
  : /^\s*"?(distributed_type|compute_environment)"?\s*:/m.test(text) ? "accelerate_config" : "training_arguments";

// A file that names its model need not be asked for it.
$("#own").addEventListener("input", () => {
  const named = /^\s*"?(?:model_name_or_path|base_model)"?\s*:\s*["']?([^\s"',]+)/m.exec($("#own").value);
  if (named && !$("#model").value) $("#model").value = named[1];
});

// The parameters of GET /estimate that the form means.
function readForm() {
  const query = new URLSearchParams();
  for (const name of FIELDS) {
    const value = form.elements[name].value.trim();
    if (value) query.append(name === "gpu" && presets.has(fold(value)) ? "cluster" : name, value);
  }
  const own = $("#own").value.trim();
  if (own) query.append(kindOf(own), own);
  for (const line of $("#others").value.split("\n")) {
    const at = line.indexOf("=");
    if (at > 0) query.append(line.slice(0, at).trim(), line.slice(at + 1).trim());
  }
  return query;
}

function fillForm(query) {
  const others = [];
  for (const name of FIELDS) form.elements[name].value = "";
  $("#own").value = "";
  for (const [given, value] of query) {
    if (given.endsWith("_config") || given === "training_arguments")
      if (!$("#own").value && kindOf(value) === given) { $("#own").value = value; continue; }
    const name = SAME[given] ?? given, field = FIELDS.includes(name) ? form.elements[name] : null;
    if (!field || field.value) { others.push(`${given}=${value}`); continue; }
    field.value = value;
    if (field.value !== value) { field.value = ""; others.push(`${given}=${value}`); } // no option, no number
    if (given === "cluster") presets.add(fold(value));
  }
  $("#others").value = others.join("\n");
  for (const p of document.querySelectorAll(".others")) p.hidden = false;
  $("#more").open = others.length > 0 || $("#own").value !== "" || FIELDS.slice(6).some((name) => form.elements[name].value);
}

// The same question with a change as `advice` and `nearest` name them.
function changed(query, change) {
  const next = new URLSearchParams(query);
  const others = {gpus_per_node: ["gpus"], gpu: ["cluster", "cluster.gpu"], methods: ["method"]};
  for (const [name, value] of Object.entries(change)) {
    for (const also of [name, `training.${name}`, ...(others[name] ?? [])]) next.delete(also);
    next.set(name === "gpus_per_node" ? "gpus" : name, value);
  }
  if (change.micro_batch_size) next.delete("global_batch_size");
  return next;
}

const link = (query) => `/?${query}${state.pinned ? `#vs=${encodeURIComponent(state.pinned.query)}` : ""}`;
const short = (value) => value.length > 48 ? `${value.slice(0, 45)}…` : value;
const brief = (query) => [...query].map(([name, value]) => ["model", "gpu", "cluster"].includes(name) ? value : `${name} ${short(value)}`).join(", ");

// --- recent questions ----------------------------------------------------------------------------------------------------------

const RECENT = 8;

function recall() {
  try { return JSON.parse(localStorage.getItem("llmemd.recent")) ?? []; } catch { return []; }
}

function remember(query) {
  const text = String(query), all = [text, ...recall().filter((q) => q !== text)].slice(0, RECENT);
  try { localStorage.setItem("llmemd.recent", JSON.stringify(all)); } catch { /* private windows have none */ }
  showRecent();
}

function showRecent() {
  const all = recall();
  $("#recent").hidden = !all.length;
  $("#recent ul").replaceChildren(...all.map((q) => el("li", {}, el("a", {href: `/?${q}`}, brief(new URLSearchParams(q))))));
}

// --- completion ----------------------------------------------------------------------------------------------------------------

async function suggest() {
  const lists = await Promise.all(["gpus", "clusters", "methods"].map(async (name) => (await (await fetch(`/${name}`)).json())[name]));
  const [gpus, clusters, methods] = lists;
  for (const c of clusters) for (const name of [c.name, ...(c.aliases ?? [])]) presets.add(fold(name));
  $("#gpus").replaceChildren(...gpus.map((g) => new Option(`${g.name}`)), ...clusters.map((c) => el("option", {value: c.name}, `${c.name}: ${c.gpus_per_node} x ${c.gpu} a node`)));
  $("#method-list").replaceChildren(...methods.map((m) => new Option(m.name)));
}

const COMPLETED = 40;

// Models come as one types: there are many.
const complete = debounced(120, async () => {
  const typed = $("#model").value.trim();
  if (typed.length < 2 || [...$("#models").options].some((o) => o.value === typed)) return;
  try {
    const {models} = await get(new URLSearchParams({q: typed, limit: COMPLETED}), "/models");
    $("#models").replaceChildren(...models.map((m) => new Option(m.id)));
  } catch { /* completion is a convenience */ }
});
$("#model").addEventListener("input", complete);
