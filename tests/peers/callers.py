"""Callers that ask all the time and count what they were answered. Python's standard library only."""
import collections
import http.client
import itertools
import json
import random
import threading
import time


CONFIG = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 512, "intermediate_size": 1376, "num_attention_heads": 8,
          "num_hidden_layers": 2, "vocab_size": 32000, "max_position_embeddings": 2048, "rms_norm_eps": 1e-5, "torch_dtype": "bfloat16"}


def question(n, model=None):
    """One candidate on one GPU: a question of its own for each n, soon computed. Without a model's name no hub is asked."""
    return json.dumps({**({"model": model} if model else {"config": CONFIG}), "cluster": {"gpu": "A100-40GB"}, "training": {"seq_len": 8 + n % 1500, "micro_batch_size": 1 + n // 1500 % 8,
                       "methods": "single", "tuning": "full", "gradient_checkpointing": True}})


class Callers:
    """`keep` of them on connections that are kept, `new` on one a request; each asks again when it has its answer.

    answers   how many of each status; lost: what became of requests that had no answer, with the time. A kept connection that the other side closed
              while it was idle is no loss: who keeps one opens another (RFC 9112, 9.3.1), once; `again` counts those
    """

    def __init__(self, port, keep=4, new=4, distinct=600, host="127.0.0.1", pause=0.002, headers=(), model=None):
        self.host, self.port, self.distinct, self.pause, self.headers, self.model = host, port, distinct, pause, dict(headers), model
        self.answers, self.lost, self.slowest, self.again = collections.Counter(), [], 0, 0
        self.lock, self.ending, self.ids = threading.Lock(), threading.Event(), itertools.count()
        self.threads = [threading.Thread(target=self.run, args=(i < keep, i), daemon=True) for i in range(keep + new)]

    def __enter__(self):
        for t in self.threads:
            t.start()
        return self

    def __exit__(self, *_):
        self.ending.set()
        for t in self.threads:
            t.join()

    def run(self, keeps, seed):
        draw, c, used, body = random.Random(seed), None, 0, None
        while not self.ending.is_set():
            if not c:
                c, used = http.client.HTTPConnection(self.host, self.port, timeout=90), 0
            began, asked = time.time(), body or question(draw.randrange(self.distinct), self.model)
            try:
                c.request("POST", "/estimate", asked,
                          dict(self.headers, **{"Content-Type": "application/json"}, **({} if keeps else {"Connection": "close"})))
                r = c.getresponse()
                whole = json.loads(r.read())
                used, body = used + 1, None
                with self.lock:
                    self.answers[r.status] += 1
                    self.slowest = max(self.slowest, time.time() - began)
                    if r.status != 200:
                        self.lost.append((began, "%d %s" % (r.status, whole.get("code"))))
                if not keeps or r.will_close:
                    c = c.close()
            except (OSError, http.client.HTTPException, ValueError) as e:
                if used and not body and isinstance(e, (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError)):
                    c, body = c.close(), asked
                    with self.lock:
                        self.again += 1
                    continue
                body = None
                with self.lock:
                    self.answers["lost"] += 1
                    self.lost.append((began, "%s after %.3f s%s" % (repr(e), time.time() - began, ", kept" if keeps else "")))
                c = c.close()
            time.sleep(self.pause)
        if c:
            c.close()

    def done(self):
        with self.lock:
            return sum(self.answers.values())

    def wait_for(self, n, seconds=60):
        """Until so many more requests have ended."""
        n, end = n + self.done(), time.time() + seconds
        while self.done() < n:
            if time.time() > end:
                raise AssertionError("nobody is answered any more: %s %s" % (self.answers, self.lost[:5]))
            time.sleep(0.01)
