// uPlot's charts: the step's memory over its events; memory and speed over batch and length.
const charts = new Set();

const axes = () => ({stroke: color("--soft"), grid: {stroke: color("--line"), width: 1}, ticks: {stroke: color("--line")}, font: "12px system-ui, sans-serif"});

function chart(box, options, data) {
  const draw = () => new uPlot({...options(), width: Math.max(200, box.clientWidth), legend: {show: false}}, data, box);
  let plot = draw(), width = box.clientWidth;
  const entry = {
    box,
    redraw() { plot.destroy(); plot = draw(); },
    resize() { if (box.clientWidth && box.clientWidth !== width) { width = box.clientWidth; plot.setSize({width: Math.max(200, width), height: plot.height}); } },
    get plot() { return plot; },
  };
  charts.add(entry);
  return entry;
}
addEventListener("resize", debounced(100, () => { for (const c of charts) if (c.box.isConnected) c.resize(); else charts.delete(c); }));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { for (const c of charts) if (c.box.isConnected) c.redraw(); });

// --- the timeline --------------------------------------------------------------------------------------------------------------

// The last step alone, where the peak is its.
function lastStep(t) {
  const from = t.at.findIndex((at) => at >= t.last_step_begins), highest = Math.max(...t.allocated_bytes);
  if (from <= 0 || !t.allocated_bytes.slice(from).includes(highest)) return t;
  const cut = (column) => column.slice(from), all = {...t};
  for (const name of ["at", "allocated_bytes", "reserved_bytes", "bytes", "phase", "op", "category", "module"]) all[name] = cut(t[name]);
  all.by_category = Object.fromEntries(Object.entries(t.by_category).map(([name, column]) => [name, cut(column)]));
  return all;
}

const NARROWEST = 0.05; // of the chart, for a phase: the loss has few blocks, and often the peak

function stacked(timeline) {
  const sums = new Array(timeline.at.length).fill(0), layers = [];
  for (const [key, name, style] of PARTS) {
    const columns = (key === "rest" ? REST : [key]).map((k) => timeline.by_category[k]).filter(Boolean);
    layers.push({name, style, values: sums.map((_, i) => (sums[i] += columns.reduce((s, c) => s + c[i], 0)) / GIB)});
  }
  return layers.reverse(); // the highest is drawn first, the others over it
}

function phasesOf(timeline) {
  const runs = [];
  timeline.phase.forEach((phase, i) => {
    const last = runs[runs.length - 1];
    if (last && (last.phase === phase || (i + 1 < timeline.phase.length && timeline.phase[i + 1] === last.phase))) last.n++;
    else runs.push({phase, first: i, n: 1});
  });
  let x = 0;
  const xs = [];
  for (const run of runs) {
    const width = Math.max(run.n / timeline.at.length, run.n > 1 ? NARROWEST : 0.01);
    run.from = x;
    for (let i = 0; i < run.n; i++) xs.push(x + width * i / run.n);
    run.to = x += width;
  }
  return {runs, xs};
}

function drawPhases(plot, runs) {
  const {ctx, bbox} = plot;
  ctx.save();
  ctx.textAlign = "left";
  ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
  ctx.fillStyle = ctx.strokeStyle = color("--soft");
  ctx.setLineDash([2 * devicePixelRatio, 3 * devicePixelRatio]);
  let end = -Infinity;
  for (const run of runs) {
    const x = plot.valToPos(run.from, "x", true), width = plot.valToPos(run.to, "x", true) - x;
    ctx.beginPath(); ctx.moveTo(x, bbox.top); ctx.lineTo(x, bbox.top + bbox.height); ctx.stroke();
    if (x > end && width + 8 > ctx.measureText(run.phase).width) { ctx.fillText(run.phase, x + 4, bbox.top + 12 * devicePixelRatio); end = x + ctx.measureText(run.phase).width; }
  }
  ctx.restore();
}

function drawCeiling(plot, ceiling) {
  const {ctx, bbox} = plot, y = plot.valToPos(ceiling, "y", true);
  if (y < bbox.top) return;
  ctx.save();
  ctx.strokeStyle = ctx.fillStyle = color("--ink");
  ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
  ctx.textAlign = "right";
  ctx.lineWidth = 1.5 * devicePixelRatio;
  ctx.beginPath(); ctx.moveTo(bbox.left, y); ctx.lineTo(bbox.left + bbox.width, y); ctx.stroke();
  ctx.fillText("what the card has", bbox.left + bbox.width - 4, y + 13 * devicePixelRatio);
  ctx.restore();
}

function momentText(t, i) {
  const what = `${t.phase[i]}: ${t.op[i]}${t.module[i] ? ` in ${t.module[i]}` : ""} takes ${mib(t.bytes[i])} (${t.category[i].replaceAll("_", " ")}).`;
  const most = PARTS.map(([key, name]) => [name, (key === "rest" ? REST : [key]).reduce((s, k) => s + (t.by_category[k]?.[i] ?? 0), 0)]).sort((a, b) => b[1] - a[1]).slice(0, 3);
  return `${what} Then ${gib(t.allocated_bytes[i])} GiB are allocated: ${most.map(([name, bytes]) => `${name} ${gib(bytes)}`).join(", ")}.`;
}

function timelineView(whole, capacity) {
  const t = lastStep(whole), layers = stacked(t), {runs, xs} = phasesOf(t), box = el("div", {class: "chart"}), moment = el("p", {class: "moment", id: "moment"});
  const ceiling = capacity / GIB, peak = t.allocated_bytes.indexOf(Math.max(...t.allocated_bytes));
  const slider = el("input", {type: "range", min: 0, max: t.at.length - 1, value: peak, "aria-describedby": "moment", id: "moment-slider"});
  const section = el("div", {}, el("h2", {}, "Memory over the step"), box,
    el("label", {for: "moment-slider"}, "A moment of the step (hover, or move with the arrow keys; it begins at the peak)"), slider, moment);
  let own = false;
  const tell = (i) => { moment.textContent = momentText(t, i); slider.setAttribute("aria-valuetext", momentText(t, i)); };
  const options = () => ({
    height: 260,
    scales: {x: {time: false}, y: {range: (_, low, high) => [0, (ceiling < 2 * high ? Math.max(high, ceiling) : high) * (ceiling < 2 * high ? 1.16 : 1.08)]}},
    axes: [{...axes(), label: "the step, phase by phase", labelSize: 18, grid: {show: false}, ticks: {show: false}, values: () => [], size: 6}, {...axes(), label: "GiB", labelSize: 18, size: 52}],
    series: [{}, ...layers.map((l) => ({label: l.name, fill: color(`--${l.style}`), width: 0, points: {show: false}, paths: uPlot.paths.stepped({align: 1})}))],
    cursor: {y: false, drag: {x: true, y: false}},
    hooks: {
      draw: [(plot) => drawPhases(plot, runs), (plot) => drawCeiling(plot, ceiling)],
      setCursor: [(plot) => { if (!own && plot.cursor.idx !== null && plot.cursor.idx !== undefined) { slider.value = plot.cursor.idx; tell(plot.cursor.idx); } }],
    },
  });
  const show = () => {
    const entry = chart(box, options, [xs, ...layers.map((l) => l.values)]);
    slider.addEventListener("input", () => {
      const i = Number(slider.value);
      own = true;
      entry.plot.setCursor({left: entry.plot.valToPos(xs[i], "x"), top: 0});
      own = false;
      tell(i);
    });
  };
  tell(peak);
  const lines = new Set(t.largest.map((b) => `${mib(b.bytes)} ${b.category.replaceAll("_", " ")}: ${b.op}${b.module ? ` in ${b.module}` : ""}, born in ${b.phase}`)); // every step has them
  const largest = el("details", {}, el("summary", {}, "The largest blocks"), el("ul", {class: "plain"}, ...[...lines].slice(0, 12).map((l) => el("li", {}, l))));
  section.append(largest);
  return {section, show};
}

// --- what if -------------------------------------------------------------------------------------------------------------------

function curve(box, label, points, capacity) {
  const known = points.filter((p) => p.gib !== undefined);
  return chart(box, () => ({
    height: 190,
    scales: {x: {time: false, distr: 3, log: 2}, y: {range: (_, low, high) => [0, Math.min(Math.max(high, capacity / GIB), 2.5 * capacity / GIB) * 1.05]}, s: {range: (_, low, high) => [0, high * 1.1 || 1]}},
    axes: [{...axes(), label, labelSize: 18, values: (_, splits) => splits.map((v) => v === null || v < 1 ? "" : count(v))},
           {...axes(), scale: "y", label: "GiB", labelSize: 18, size: 50}, {...axes(), scale: "s", side: 1, grid: {show: false}, label: "tokens/s", labelSize: 18, size: 60}],
    series: [{}, {scale: "y", stroke: color("--c0"), width: 2, points: {show: true, size: 6}}, {scale: "s", stroke: color("--c4"), width: 2, dash: [6, 4], points: {show: true, size: 5}},
             {scale: "y", stroke: color("--ink"), width: 1}],
    cursor: {show: false},
  }), [known.map((p) => p.x), known.map((p) => p.gib), known.map((p) => p.speed ?? null), known.map(() => capacity / GIB)]);
}

const BATCHES = [1, 2, 4, 8, 16, 32], LENGTHS = [512, 1024, 2048, 4096, 8192, 16384];

// The recommendation with everything stated, but for what is varied.
function fixed(query, c, seqLen, batch) {
  const next = new URLSearchParams(query);
  for (const name of ["global_batch_size", "gradient_accumulation_steps", "objective", "timeline", "top"]) next.delete(name);
  const said = {methods: c.method, tuning: c.tuning, gradient_checkpointing: c.gradient_checkpointing, offload: c.offload, micro_batch_size: batch, seq_len: seqLen, top: 1};
  if (c.tensor_parallel > 1) said.tensor_parallel = c.tensor_parallel;
  for (const [name, value] of Object.entries(said)) { next.delete(`training.${name}`); next.set(name, value); }
  return next;
}

async function pointAt(query, c, seqLen, batch) {
  try {
    const one = (await get(fixed(query, c, seqLen, batch))).candidates[0];
    return one.memory ? {gib: takes(one.memory) / GIB, speed: one.throughput?.tokens_per_s, fits: one.fits} : {};
  } catch { return {}; } // beyond the model's positions
}

function whatIf(answer, query) {
  const c = answer.recommendation ?? answer.candidates.find((x) => x.memory);
  const seqLen = answer.resolved.training.seq_len, batch = c.micro_batch_size, capacity = c.memory.capacity_bytes;
  const batches = [...new Set([...BATCHES, batch])].sort((a, b) => a - b), lengths = [...new Set([...LENGTHS, seqLen])].sort((a, b) => a - b);
  const told = el("p", {class: "moment", role: "status"});
  const byBatch = el("input", {type: "range", id: "what-batch", min: 0, max: batches.length - 1, value: batches.indexOf(batch)});
  const byLength = el("input", {type: "range", id: "what-length", min: 0, max: lengths.length - 1, value: lengths.indexOf(seqLen)});
  const boxes = [el("div", {class: "chart"}), el("div", {class: "chart"})];
  const details = el("details", {}, el("summary", {}, "What if the batch or the length were another?"), told,
    el("div", {class: "two-charts"},
      el("div", {}, el("label", {for: "what-batch"}, "Micro-batch"), byBatch, boxes[0]),
      el("div", {}, el("label", {for: "what-length"}, "Sequence length"), byLength, boxes[1])),
    el("p", {class: "plain"}, "Solid: memory; dashed: speed; the level line is the card's capacity."));
  const now = () => [lengths[byLength.value], batches[byBatch.value]];
  const say = async () => {
    const [length, n] = now(), p = await pointAt(query, c, length, n);
    if (String(now()) !== String([length, n])) return;
    const text = `Batch ${n} of ${count(length)} tokens: ${p.gib === undefined ? "no figure (beyond what the model takes)" : `${p.gib.toFixed(1)} of ${gib(capacity)} GiB, ${p.fits ? "fits" : "does not fit"}${p.speed ? `, ${count(p.speed)} tokens/s` : ""}`}.`;
    told.textContent = text;
    byBatch.setAttribute("aria-valuetext", `batch ${n}`);
    byLength.setAttribute("aria-valuetext", `${length} tokens`);
  };
  const draw = async (box, label, xs, at) => {
    const points = await Promise.all(xs.map(async (x) => ({x, ...await at(x)})));
    box.replaceChildren();
    if (points.some((p) => p.gib !== undefined)) curve(box, label, points, capacity);
  };
  const drawBatches = () => draw(boxes[0], "micro-batch", batches, (n) => pointAt(query, c, now()[0], n));
  const drawLengths = () => draw(boxes[1], "tokens a sequence", lengths, (s) => pointAt(query, c, s, now()[1]));
  byBatch.addEventListener("input", debounced(60, say));
  byLength.addEventListener("input", debounced(60, say));
  byBatch.addEventListener("change", drawLengths);
  byLength.addEventListener("change", drawBatches);
  details.addEventListener("toggle", () => { if (details.open && !boxes[0].childNodes.length) { say(); drawBatches(); drawLengths(); } });
  return details;
}
