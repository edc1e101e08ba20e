"use strict";
// node page.js URL: see page.sh.
const assert = require("node:assert");
const fs = require("node:fs");
const path = require("node:path");
const {chromium} = require("playwright-core");

const url = process.argv[2], shots = process.env.SHOTS;
const axe = fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const SMALL = "model=Qwen/Qwen2.5-7B&gpu=RTX+4090", MANY = "model=meta-llama/Meta-Llama-3-8B&gpu=A100-80GB&gpus=8", STUCK = "model=Qwen/Qwen2.5-7B&gpu=RTX+4090&tuning=full";
const THEMES = ["light", "dark"], DESKTOP = {width: 1280, height: 900}, PHONE = {width: 390, height: 844};
let browser, checks = 0;

async function open(query = "", options = {}) {
  const context = await browser.newContext({viewport: DESKTOP, ...options}), page = await context.newPage();
  page.faults = [];
  page.on("console", (m) => { if (m.type() === "error") page.faults.push(m.text()); });
  page.on("pageerror", (e) => page.faults.push(e.message));
  page.on("request", (r) => { if (!r.url().startsWith(url)) page.faults.push(`a request to ${r.url()}`); });
  await page.goto(`${url}/${query && `?${query}`}`);
  if (query.includes("model=") && options.javaScriptEnabled !== false) await page.waitForSelector("#answer .sentence");
  return page;
}

async function close(page) {
  assert.deepEqual(page.faults, []);
  await page.context().close();
}

const text = (page, selector) => page.locator(selector).first().innerText();
const drawn = (page) => page.waitForSelector("#answer canvas");

async function check(name, act) {
  await act();
  checks++;
  console.log(`page: ${name}`);
}

async function main() {
  browser = await chromium.launch({executablePath: process.env.CHROMIUM, args: ["--no-sandbox"]});

  await check("asked by hand, with the keyboard alone", async () => {
    const page = await open();
    await page.focus("#model");
    await page.keyboard.type("qwen2.5");
    await page.waitForFunction(() => [...document.querySelectorAll("#models option")].some((o) => o.value === "Qwen/Qwen2.5-7B"));
    await page.fill("#model", "Qwen/Qwen2.5-7B");
    await page.keyboard.press("Tab");
    await page.keyboard.type("RTX 4090");
    await page.keyboard.press("Enter");
    await page.waitForSelector("#answer .sentence");
    const answer = await (await fetch(`${url}/estimate?${SMALL}`)).json();
    assert.equal(await text(page, "#answer .sentence"), answer.summary);
    assert.equal(await page.locator("#answer .bars > li").count(), answer.candidates.length);
    assert.match(page.url(), /model=Qwen%2FQwen2.5-7B&gpu=RTX\+4090$/);
    assert.match(await page.locator("#answer .bar").first().getAttribute("aria-label"), /^19\.4 of 23\.5 GiB: weights 14\.2/);
    await drawn(page);
    await page.focus("#moment-slider");
    const before = await text(page, "#moment");
    assert.match(before, /^loss_backward: aten::\w+ takes .* GiB .*Then 18\.1 GiB are allocated/);
    await page.keyboard.press("Home");
    assert.notEqual(await text(page, "#moment"), before);
    await close(page);
  });

  await check("hovering over the timeline names what is born", async () => {
    const page = await open(SMALL);
    await drawn(page);
    await page.locator("#answer .u-over").first().scrollIntoViewIfNeeded();
    const box = await page.locator("#answer .u-over").first().boundingBox(), before = await text(page, "#moment");
    await page.mouse.move(box.x + box.width / 10, box.y + 50);
    await page.waitForFunction((was) => document.querySelector("#moment").innerText !== was, before);
    assert.match(await text(page, "#moment"), /^(forward|batch): aten::.* in model\./);
    await close(page);
  });

  await check("the link holds the whole question", async () => {
    const query = "model=gpt2&cluster=mahti&nodes=2&tuning=full&attention=eager&stack.torch=2.5&tensor_parallel=1";
    const page = await open(query);
    assert.equal(await page.inputValue("#gpu"), "mahti");
    assert.deepEqual((await page.inputValue("#others")).split("\n"), ["attention=eager", "stack.torch=2.5", "tensor_parallel=1"]);
    await page.waitForFunction(() => document.querySelectorAll("#gpus option").length > 50);
    await page.click("text=Estimate");
    await page.waitForFunction(() => document.querySelector("#status").textContent === "");
    const kept = new URL(page.url()).searchParams;
    for (const [name, value] of new URLSearchParams(query)) assert.equal(kept.get(name), value, name);
    assert.equal([...kept].length, 7);
    await close(page);
  });

  await check("no dead end: a misfit names a way out, which is one click away", async () => {
    const page = await open(STUCK);
    assert.match(await text(page, "#answer .sentence"), /^Does not fit: .* would fit: /);
    await page.locator("#answer .advice a").first().click();
    await page.waitForFunction(() => document.querySelector("#answer").classList.contains("fits"));
    assert.match(await text(page, "#answer .sentence"), /^Fits/);
    await page.goBack();
    await page.waitForFunction(() => document.querySelector("#answer").classList.contains("not"));
    await close(page);
  });

  await check("two questions side by side, in the link too", async () => {
    const page = await open(SMALL);
    await page.click("#pin");
    await page.fill("#gpu", "A100-80GB");
    await page.click("text=Estimate");
    await page.waitForFunction(() => document.querySelector("#answer .sentence").innerText.includes("A100"));
    assert.match(await text(page, "#pinned .sentence"), /RTX 4090/);
    const again = await browser.newPage();
    await again.goto(page.url());
    await again.waitForSelector("#pinned .sentence");
    await again.waitForSelector("#answer .sentence");
    assert.match(await text(again, "#pinned .sentence"), /RTX 4090/);
    assert.match(await text(again, "#answer .sentence"), /A100/);
    const [a, b] = [await again.locator("#pinned").boundingBox(), await again.locator("#answer").boundingBox()];
    assert.ok(a.x + a.width <= b.x && a.y === b.y, "beside each other");
    await again.close();
    await close(page);
  });

  await check("memory and speed over batch and length follow the sliders", async () => {
    const page = await open(SMALL);
    await page.click("text=What if the batch");
    await page.waitForFunction(() => document.querySelectorAll(".two-charts canvas").length === 2);
    await page.focus("#what-batch");
    await page.keyboard.press("End");
    await page.waitForFunction(() => /^Batch 32 of 2,048 tokens: .* does not fit/.test(document.querySelector("#answer details .moment").innerText));
    await close(page);
  });

  await check("files to start it can be read and copied; recent questions come back; a typing error is told", async () => {
    const page = await open(MANY);
    await page.click("text=Files to start it");
    assert.match(await text(page, "#answer pre"), /accelerate launch/);
    assert.match(await text(page, "#recent li"), /Meta-Llama-3-8B, A100-80GB, gpus 8/);
    await page.fill("#gpu", "A1OO");
    await page.click("text=Estimate");
    await page.waitForSelector("#status.bad");
    assert.match(await text(page, "#status"), /^gpu: 'A1OO'.*Ask with A10 /);
    await page.click("text=Ask with A100-40GB SXM");
    await page.waitForFunction(() => /A100-40GB SXM/.test(document.querySelector("#answer .sentence")?.innerText));
    page.faults = page.faults.filter((f) => !/status of (404|422)/.test(f)); // the browser's own word for it
    await close(page);
  });

  await check("a file of one's own goes along, whichever tool's it is", async () => {
    const page = await open("model=facebook/opt-1.3b&gpu=A100-80GB&gpus=4");
    await page.click("#more > summary");
    for (const [file, says] of [['{"zero_optimization": {"stage": 2}, "train_micro_batch_size_per_gpu": 3}', /zero2, .*micro-batch 3/],
      ["distributed_type: FSDP\nmixed_precision: bf16\nfsdp_config:\n  fsdp_version: 2\n", /fsdp2/], ["per_device_train_batch_size: 5\nbf16: true\n", /micro-batch 5/]]) {
      await page.fill("#own", file);
      await page.click("text=Estimate");
      await page.waitForFunction((source) => new RegExp(source).test(document.querySelector("#answer .sentence")?.innerText), says.source);
    }
    await page.fill("#own", '{"zero_optimization": {"stage": 2, "offlod_optimizer": {"device": "cpu"}}}');
    await page.click("text=Estimate");
    await page.waitForFunction(() => /did you mean offload_optimizer\?$/.test(document.querySelector("#status").innerText));
    page.faults = page.faults.filter((f) => !/status of 422/.test(f));
    await page.fill("#model", "");
    await page.fill("#own", "base_model: facebook/opt-125m\nadapter: lora\nmicro_batch_size: 2\n");
    assert.equal(await page.inputValue("#model"), "facebook/opt-125m");
    await page.click("text=Estimate");
    await page.waitForFunction(() => /LoRA .*micro-batch 2/.test(document.querySelector("#answer .sentence")?.innerText));
    const again = await browser.newPage();
    await again.goto(page.url());
    await again.waitForSelector("#answer .sentence");
    assert.equal(await text(again, "#answer .sentence"), await text(page, "#answer .sentence"));
    await again.close();
    await close(page);
  });

  await check("what has no figures is asked without it in one click; the empty page has questions to begin with", async () => {
    const page = await open(`${SMALL}&stage=ppo`);
    assert.match(await text(page, "#answer .sentence"), /^No answer: .*ppo/);
    await page.click("text=ask without stage");
    await page.waitForFunction(() => document.querySelector("#answer").classList.contains("fits"));
    assert.ok(!page.url().includes("ppo"));
    assert.ok(!(await page.isVisible("#examples")));
    await close(page);
    const empty = await open();
    assert.ok(await empty.isVisible("#examples"));
    await empty.locator("#examples a").first().click();
    await empty.waitForSelector("#answer .sentence");
    assert.match(empty.url(), /\/\?model=Qwen/);
    assert.match(await empty.title(), /Qwen2.5-7B, RTX 4090 . llmemd/);
    await close(empty);
  });

  await check("a question of inference has its bars too", async () => {
    const page = await open("model=gpt2&gpu=RTX+4090&workload=inference&weights=bf16");
    assert.match(await text(page, "#answer .sentence"), /^Fits: .* weights, batch 1/);
    assert.match(await text(page, "#answer .bars > li"), / weights . batch 1/);
    assert.match(await page.locator("#answer .bar").first().getAttribute("aria-label"), /of 23\.5 GiB: weights 0\./);
    assert.ok(!/undefined|NaN/.test(await text(page, "#answer")));
    await close(page);
  });

  await check("without JavaScript the form still answers", async () => {
    const page = await open("", {javaScriptEnabled: false});
    await page.fill("#model", "gpt2");
    await page.fill("#gpu", "T4");
    await page.selectOption("#tuning", "lora");
    await page.click("text=Estimate");
    const answer = await (await fetch(`${url}/estimate?model=gpt2&gpu=T4&tuning=lora`)).json();
    assert.equal(await text(page, ".sentence"), answer.summary);
    assert.equal(await page.locator(".bars > li").count(), answer.candidates.length);
    const [bar, card] = [await page.locator("svg.bar").first().boundingBox(), await page.locator("#answer").boundingBox()];
    assert.ok(bar.width > card.width * 0.8 && bar.height > 10, "a bar is drawn");
    assert.equal(await page.inputValue("#model"), "gpt2");
    assert.equal(await page.inputValue("#tuning"), "lora");
    await page.fill("#gpu", "lumi");
    await page.click("text=Estimate");
    assert.match(await text(page, ".sentence"), /MI250X/);
    await page.goto(`${url}/answer?${STUCK}`);
    await page.locator(".advice a").first().click();
    assert.match(await text(page, ".sentence"), /^Fits/);
    await page.fill("#gpu", "A1OO");
    await page.click("text=Estimate");
    assert.match(await text(page, "#status"), /A1OO/);
    assert.equal(await page.inputValue("#gpu"), "A1OO");
    if (shots) {
      await page.goto(`${url}/answer?${STUCK}`);
      await page.screenshot({path: path.join(shots, "page-no-script.png"), fullPage: true});
    }
    await page.context().close();
  });

  for (const theme of THEMES)
    await check(`axe finds nothing serious: ${theme}`, async () => {
      for (const [query, wait] of [["", null], [MANY, drawn], [STUCK, drawn]]) {
        const page = await open(query, {colorScheme: theme});
        if (wait) await wait(page);
        for (const d of await page.locator("details > summary").all()) await d.click();
        await page.evaluate(axe);
        const found = await page.evaluate(async () => (await axe.run()).violations.map((v) => ({id: v.id, impact: v.impact, nodes: v.nodes.slice(0, 3).map((n) => n.html)})));
        assert.deepEqual(found.filter((v) => ["serious", "critical"].includes(v.impact)), []);
        page.faults = page.faults.filter((f) => !/status of 422/.test(f)); // lengths beyond the model's positions
        await close(page);
      }
    });

  await check("a phone does not scroll sideways", async () => {
    for (const query of ["", SMALL, MANY, STUCK]) {
      const page = await open(query, {viewport: PHONE});
      if (query) await drawn(page);
      const [wide, inner] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
      assert.ok(wide <= inner, `${query}: ${wide} of ${inner}`);
      await close(page);
    }
  });

  await check("the first answer is painted within a second, and weighs little", async () => {
    let best = Infinity, bytes = 0;
    for (let i = 0; i < 3; i++) {
      const context = await browser.newContext(), page = await context.newPage(), session = await context.newCDPSession(page);
      await session.send("Network.enable");
      bytes = 0;
      session.on("Network.loadingFinished", (e) => { bytes += e.encodedDataLength; });
      await page.goto(`${url}/?${SMALL}`);
      await page.waitForSelector("#answer .sentence");
      best = Math.min(best, await page.evaluate(() => performance.getEntriesByName("answered")[0].startTime));
      await drawn(page);
      await context.close();
    }
    console.log(`page: first answer after ${best.toFixed(0)} ms, ${(bytes / 1024).toFixed(0)} KiB in all with its answers and lists`);
    assert.ok(best <= 1000, `${best} ms`);
    assert.ok(bytes <= 150 * 1024, `${bytes} bytes`);
  });

  if (shots)
    for (const theme of THEMES)
      for (const [name, viewport] of [["desktop", DESKTOP], ["phone", PHONE]]) {
        const page = await open(name === "desktop" ? MANY : SMALL, {viewport, colorScheme: theme});
        await drawn(page);
        await page.screenshot({path: path.join(shots, `page-${name}-${theme}.png`), fullPage: true});
        await close(page);
      }
  await browser.close();
  console.log(`${checks} checks of the page, 0 failed`);
}

main().catch(async (error) => {
  console.error(error);
  await browser?.close();
  process.exit(1);
});
