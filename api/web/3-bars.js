// A bar a candidate against the capacity: what is alive at the peak by category, what the allocator holds beside it, the process's context and NCCL.

function nameOf(c) {
  if (c.weights) return `${c.weights} weights${c.batch_size ? ` · batch ${c.batch_size}` : ""}`;
  const parts = [KINDS[c.tuning] ?? c.tuning], alone = c.method === "single";
  if (!alone) parts.push(c.method);
  if (c.tensor_parallel > 1 && c.data_parallel > 1) parts.push(`tp ${c.tensor_parallel}`);
  if (c.gradient_checkpointing === true) parts.push("checkpointing");
  if (c.offload && c.offload !== "none") parts.push(`${c.offload} offloaded`);
  if (c.sync_each_batch) parts.push("sync_each_batch");
  if (c.micro_batch_size) parts.push(`${alone ? "batch" : "micro-batch"} ${c.micro_batch_size}`);
  return parts.join(" · ");
}

function segmentsOf(memory) {
  const beside = memory.context_bytes + (memory.nccl_bytes ?? 0);
  if (!memory.breakdown_bytes)
    return [{name: "live tensors", style: "live", bytes: memory.low_bytes}, {name: "context and NCCL", style: "c9", bytes: beside}];
  const parts = partsOf(memory.breakdown_bytes);
  return [...parts, {name: "held by the allocator", style: "c8", bytes: Math.max(0, memory.peak_reserved_bytes - memory.peak_allocated_bytes)},
          {name: "context and NCCL", style: "c9", bytes: beside}].filter((p) => p.bytes > 0);
}

const takes = (m) => m.device_bytes ?? m.high_bytes + m.context_bytes + (m.nccl_bytes ?? 0);

function bar(memory) {
  const scale = memory.capacity_bytes * 1.3, percent = (bytes) => `${Math.max(0, Math.min(100, 100 * bytes / scale))}%`;
  const segments = segmentsOf(memory), beside = memory.context_bytes + (memory.nccl_bytes ?? 0);
  const said = segments.filter((s) => s.bytes > GIB / 20).map((s) => `${s.name} ${gib(s.bytes)}`).join(", ");
  const box = el("div", {class: "bar", role: "img", "aria-label": `${gib(takes(memory))} of ${gib(memory.capacity_bytes)} GiB: ${said}`});
  let at = 0;
  for (const s of segments) {
    const part = el("span", {class: s.style, title: `${s.name}: ${gib(s.bytes)} GiB`});
    part.style.left = percent(at);
    part.style.width = percent(Math.min(s.bytes, scale - at));
    box.append(part);
    at += s.bytes;
  }
  if (memory.high_bytes > memory.low_bytes) {
    const whisker = el("span", {class: "whisker", title: `between ${gib(memory.low_bytes)} and ${gib(memory.high_bytes)} GiB allocated`});
    whisker.style.left = percent(memory.low_bytes + beside);
    whisker.style.width = percent(memory.high_bytes - memory.low_bytes);
    box.append(whisker);
  }
  const capacity = el("span", {class: "capacity", title: `capacity ${gib(memory.capacity_bytes)} GiB`});
  capacity.style.width = percent(memory.capacity_bytes);
  box.append(capacity);
  if (at > scale) box.append(el("span", {class: "cut"}));
  return box;
}

function changeInWords(change) {
  return Object.entries(change).map(([name, value]) =>
    name === "tuning" ? KINDS[value] ?? value : name === "gradient_checkpointing" ? (value ? "checkpointing" : "no checkpointing") : name === "seq_len" ? `${count(value)} tokens`
    : name === "micro_batch_size" ? `batch ${value}` : name === "gpus_per_node" ? `${value} GPUs` : name === "nodes" ? `${value} nodes` : String(value)).join(", ");
}

const ALL_LINEAR = {tuning: "lora", "lora.target_modules": "all-linear"};

function row(candidate, query, first) {
  const m = candidate.memory, t = candidate.throughput;
  const verdict = candidate.fits === null ? ["", "not modelled"] : candidate.fits ? (candidate.tight ? ["tight", "tight"] : ["yes", "fits"]) : ["no", "does not fit"];
  const nums = m ? [`${gib(takes(m))} of ${gib(m.capacity_bytes)} GiB`, t ? `${count(t.tokens_per_s)} tokens/s` : null].filter(Boolean).join(" · ") : "";
  const li = el("li", {class: first ? "first" : ""},
    el("div", {class: "what"}, el("span", {}, el("strong", {class: verdict[0]}, verdict[1]), ` ${nameOf(candidate)}`),
       el("span", {class: "nums"}, nums, m ? " · " : "", m ? term(m.basis) : "")));
  if (m) li.append(bar(m));
  if (candidate.reason) {
    const near = candidate.reason.nearest;
    const why = el("p", {class: "why"}, `${candidate.reason.detail}.`);
    if (near) why.append(" Nearest that fits: ", el("a", {href: `/?${changed(query, near)}`}, changeInWords(near)), ".");
    if (candidate.reason.code === "no-default-targets") why.append(" ", el("a", {href: `/?${changed(query, ALL_LINEAR)}`}, "Ask with all linear layers"), ".");
    li.append(why);
  }
  return li;
}

const SHOWN = 6;

function bars(answer, query) {
  const all = answer.candidates, box = el("div");
  const rows = all.map((c, i) => row(c, query, i === 0 && c.fits));
  box.append(el("h2", {}, "Ways to train, against the card's memory"), el("ol", {class: "bars"}, ...rows.slice(0, SHOWN)));
  if (rows.length > SHOWN)
    box.append(el("details", {}, el("summary", {}, `${rows.length - SHOWN} more`), el("ol", {class: "bars", start: SHOWN + 1}, ...rows.slice(SHOWN))));
  if (!all.some((c) => c.memory)) return box;
  const bounded = all.some((c) => c.memory && !c.memory.breakdown_bytes) ? [["all of these (not replayed)", "live"]] : [];
  const serves = all.some((c) => c.weights);
  const legend = [...PARTS.filter(([key]) => serves ? !["gradients", "optimizer_states", "communication", "temporaries"].includes(key) : key !== "kv_cache").map(([, name, style]) => [name, style]), ["context and NCCL", "c9"], ...bounded];
  box.append(el("ul", {class: "legend", "aria-label": "Colours"}, ...legend.map(([name, style]) => el("li", {}, el("i", {class: style}), name)), el("li", {}, "│ capacity"), el("li", {}, "— low to high")));
  return box;
}
