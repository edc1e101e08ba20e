"use strict";
// The form works without this file; with it the answer becomes a table.
const $ = (selector) => document.querySelector(selector);
const gib = (bytes) => bytes === undefined ? "" : (bytes / 2 ** 30).toFixed(2);

function row(candidate) {
  const tr = document.createElement("tr");
  const memory = candidate.memory || {}, throughput = candidate.throughput || {};
  const cells = [
    candidate.fits === null ? "?" : candidate.fits ? (candidate.tight ? "tight" : "yes") : "no",
    candidate.method, candidate.tuning, candidate.gradient_checkpointing === undefined ? "" : String(candidate.gradient_checkpointing),
    candidate.micro_batch_size ?? "", candidate.max_micro_batch_size ?? "", gib(memory.peak_reserved_bytes ?? memory.high_bytes),
    gib(memory.capacity_bytes), throughput.tokens_per_s === undefined ? "" : Math.round(throughput.tokens_per_s),
    candidate.reason ? candidate.reason.detail : "",
  ];
  tr.className = candidate.fits ? "fits" : "not";
  for (const text of cells) {
    const td = document.createElement("td");
    td.textContent = text;
    tr.append(td);
  }
  return tr;
}

function show(answer) {
  const best = answer.recommendation;
  $("#verdict").textContent = best ? `${answer.method}, micro-batch ${answer.micro_batch_size}`
    : answer.fits === false ? "Nothing fits." : "Nothing of this is modelled.";
  $("#answer tbody").replaceChildren(...answer.candidates.map(row));
  $("#answer").hidden = false;
  $("#notes").replaceChildren(...[...answer.warnings, ...answer.assumptions].map((text) => {
    const li = document.createElement("li");
    li.textContent = text;
    return li;
  }));
}

async function ask(event) {
  event.preventDefault();
  const query = new URLSearchParams([...new FormData($("form"))].filter(([, value]) => value !== ""));
  $("#verdict").textContent = "…";
  try {
    const response = await fetch(`/estimate?${query}`);
    const answer = await response.json();
    if (response.ok) {
      history.replaceState(null, "", `/?${query}`);
      show(answer);
    } else {
      $("#answer").hidden = true;
      $("#notes").replaceChildren();
      $("#verdict").textContent = `${answer.title}: ${answer.parameter ? answer.parameter + " " : ""}${answer.detail}`;
    }
  } catch (error) {
    $("#verdict").textContent = `No answer: ${error.message}`;
  }
}

async function suggest(path, list, member) {
  try {
    const rows = (await (await fetch(path)).json())[list];
    $(`#${list}`).replaceChildren(...rows.map((entry) => new Option(entry[member])));
  } catch { /* suggestions are a convenience */ }
}

$("form").addEventListener("submit", ask);
suggest("/models", "models", "id");
suggest("/gpus", "gpus", "name");
for (const [name, value] of new URLSearchParams(location.search)) {
  const field = $("form").elements.namedItem(name);
  if (field) field.value = value;
}
if (location.search) $("form").requestSubmit();
