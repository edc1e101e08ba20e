"use strict";
// Helpers. The files of this folder are joined in the order of their names into /page.js.
const $ = (selector, within = document) => within.querySelector(selector);
const GIB = 2 ** 30;
const gib = (bytes) => (bytes / GIB).toFixed(bytes < 10 * GIB ? 2 : 1);
const count = (n) => Math.round(n).toLocaleString("en-US");
const mib = (bytes) => bytes >= GIB ? `${gib(bytes)} GiB` : `${(bytes / 2 ** 20).toFixed(1)} MiB`;

// An element: el("a", {href: "/", class: "x"}, "text", another).
function el(name, attributes = {}, ...children) {
  const e = document.createElement(name);
  for (const [key, value] of Object.entries(attributes))
    if (value === true) e.setAttribute(key, "");
    else if (value !== false && value !== undefined && value !== null) e.setAttribute(key, value);
  e.append(...children.filter((c) => c !== null && c !== undefined));
  return e;
}

const term = (word, text) => el("a", {href: `/glossary#${word}`}, text ?? word);

async function get(query, path = "/estimate") {
  const response = await fetch(`${path}?${query}`);
  const answer = await response.json();
  if (!response.ok) throw Object.assign(new Error(`${answer.parameter ? `${answer.parameter}: ` : ""}${answer.detail}`), {problem: answer});
  return answer;
}

const KINDS = {full: "full fine-tuning", lora: "LoRA", qlora: "QLoRA"};
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// What memory is made of, in the order in which bars and the timeline are stacked; c9 is no category of the API.
const PARTS = [
  ["parameters", "weights", "c0"], ["gradients", "gradients", "c1"], ["optimizer_states", "optimizer states", "c2"], ["kv_cache", "KV cache", "c2"], ["activations", "activations", "c3"],
  ["logits_and_loss", "logits and loss", "c4"], ["communication", "communication", "c5"], ["temporaries", "temporaries", "c6"],
  ["rest", "inputs, buffers, workspaces", "c7"], ["block_slack", "block slack", "c8"],
];
const OF_INFERENCE = {parameters: "weights", logits_and_loss: "logits"};
const REST = ["workspaces", "buffers", "inputs"];

function partsOf(breakdown) {
  return PARTS.map(([key, name, style]) => ({key, name, style, bytes: key === "rest" ? REST.reduce((sum, k) => sum + (breakdown[k] ?? 0), 0) : breakdown[key] ?? breakdown[OF_INFERENCE[key]] ?? 0}));
}

function debounced(ms, act) {
  let timer;
  return (...args) => { clearTimeout(timer); timer = setTimeout(() => act(...args), ms); };
}
