"use strict";
// Open OnDemand loads form.js with the form. The daemon names the portal's origin: llmemd serve --origins https://ondemand.example.org
const LLMEMD = globalThis.LLMEMD_URL ?? "https://llmemd.example.org", CLUSTER = "mahti", FIELDS = ["model", "gpus", "nodes", "seq_len", "tuning"];

function question(value) {
  const query = new URLSearchParams({cluster: CLUSTER});
  for (const name of FIELDS) if (value(name)) query.set(name, value(name));
  return query;
}

async function sentence(value) {
  const answer = await (await fetch(`${LLMEMD}/estimate?${question(value)}`)).json();
  return answer.summary ?? answer.detail;
}

if (typeof document !== "undefined") {
  const field = (name) => document.querySelector(`#batch_connect_session_context_${name}`);
  const show = async () => { document.querySelector("#llmemd").textContent = await sentence((name) => field(name).value).catch(() => ""); };
  for (const name of FIELDS) field(name).addEventListener("change", show);
  show();
} else {
  module.exports = {question, sentence};
}
