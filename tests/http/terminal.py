"""llmemd as people type it: tables on a pseudo-terminal, JSON in a pipe, help, completion and what is told of mistakes."""
import errno
import json
import os
import pty
import re
import select
import shlex
import socket
import struct
import subprocess
import sys
import tempfile
import unittest
import fcntl
import termios

LLMEMD = os.path.abspath(os.environ["LLMEMD"])
GIB = 1 << 30
ONE = ["--model", "openai-community/gpt2", "--gpu", "T4", "--tuning", "lora", "--seq-len", "128"]
QUESTIONS = [
    ONE,
    ["--model", "facebook/opt-125m", "--gpu", "A100-40GB", "--seq-len", "512"],
    ["--model", "facebook/opt-1.3b", "--gpu", "2x RTX 3090", "--seq-len", "256"],
    ["--model", "Qwen/Qwen2.5-14B", "--gpu", "4090", "--tuning", "lora", "--micro-batch-size", "1"],
]


def env(**more):
    e = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS", "LC_ALL", "LC_CTYPE", "LANG")}
    return dict(e, TERM="xterm", LANG="C.UTF-8", **more)


def pipe(*args, stdin="", **more):
    return subprocess.run([LLMEMD, *args], input=stdin, capture_output=True, text=True, env=env(**more), timeout=300)


def terminal(*args, columns=120, **more):
    """Standard output on a pseudo-terminal, standard error too: (exit status, text)."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    p = subprocess.Popen([LLMEMD, *args], stdin=slave, stdout=slave, stderr=slave, env=env(**more))
    os.close(slave)
    out = b""
    while True:
        try:
            if select.select([master], [], [], 300)[0]:
                got = os.read(master, 65536)
                if not got:
                    break
                out += got
        except OSError as e:
            if e.errno == errno.EIO:
                break
            raise
    os.close(master)
    return p.wait(), out.decode().replace("\r\n", "\n")


def plain(text):
    return re.sub(r"\033\[[0-9;]*m", "", text)


def rows(text):
    """Figures of the table's rows: (method, tuning, batch, GiB, tokens a second)."""
    found = re.findall(r"^  ([a-z0-9_+]+)(?: sync)? +(full|lora|qlora) +\S+ +\S+ +(\d+)  [█▏▎▍▌▋▊▉· #.!]+? +([\d.]+) +([\d.,]+|-)$", plain(text), re.M)
    return [(m, t, int(b), float(g), None if s == "-" else float(s.replace(",", ""))) for m, t, b, g, s in found]


def takes(memory):
    return memory["device_bytes"] if memory.get("device_bytes") is not None else memory["high_bytes"] + memory["context_bytes"] + memory["nccl_bytes"]


class Terminal(unittest.TestCase):
    def test_json_in_a_pipe_and_a_table_on_a_terminal(self):
        piped = pipe("estimate", *ONE)
        self.assertEqual(piped.returncode, 0)
        answer = json.loads(piped.stdout)
        code, shown = terminal("estimate", *ONE)
        self.assertEqual(code, 0)
        self.assertIn(answer["model"]["id"], shown)
        with self.assertRaises(ValueError):
            json.loads(shown)
        self.assertEqual(json.loads(plain(terminal("estimate", "--json", *ONE)[1])), answer)
        self.assertEqual(rows(pipe("estimate", "--table", *ONE).stdout), rows(shown))

    def test_no_two_rows_look_alike(self):
        shown = plain(pipe("estimate", "--table", "--model", "meta-llama/Meta-Llama-3-8B", "--gpu", "A100-40GB", "--gpus-per-node", "8", "--global-batch-size", "64",
                           "--methods", "fsdp2,tp+fsdp2", "--tensor-parallel", "2", "--tuning", "full").stdout)
        names = re.findall(r"^  (\S+(?: sync)?) +full +(\S+) +(\S+) ", shown, re.M)
        self.assertGreater(len(names), 3, shown)
        self.assertEqual(len(set(names)), len(names), shown)
        self.assertIn("tp2+fsdp2 sync", [n[0] for n in names])

    def test_the_tables_figures_are_the_jsons(self):
        for q in QUESTIONS:
            answer = json.loads(pipe("estimate", *q).stdout)
            shown = terminal("estimate", *q)[1]
            said = " ".join(plain(shown).split())
            want = [c for c in answer["candidates"] if c.get("memory")][:12]
            got = rows(shown)
            self.assertEqual(len(got), len(want), shown)
            for c, (method, tuning, batch, gib, speed) in zip(want, got):
                self.assertEqual((method, tuning, batch), (c["method"], c["tuning"], c["micro_batch_size"]))
                self.assertAlmostEqual(gib, takes(c["memory"]) / GIB, delta=0.0501)
                if c.get("throughput"):
                    self.assertAlmostEqual(speed, c["throughput"]["tokens_per_s"], delta=0.51)
            if answer.get("summary"):
                self.assertIn(" ".join(answer["summary"].split()), said)
            for a in answer.get("advice", [])[:6]:
                self.assertIn(" ".join(a["why"].split()), said)

    def test_exit_codes(self):
        self.assertEqual(pipe("estimate", *ONE).returncode, 0)
        self.assertEqual(terminal("estimate", *QUESTIONS[3])[0], 3)
        self.assertEqual(pipe("estimate", *QUESTIONS[3]).returncode, 3)
        self.assertEqual(terminal("estimate", "--model", "gpt2", "--gpu", "H100", "--methods", "ep+ddp")[0], 4)
        self.assertEqual(terminal("estimate", "--model", "gpt2", "--gpu", "4091")[0], 2)
        self.assertEqual(pipe("estimate", stdin="{").returncode, 2)

    def test_a_revision_that_is_not_carried_is_named(self):
        asked = '{"model": "openai-community/gpt2", "revision": "of-june", "cluster": {"gpu": "T4"}}'
        told = json.loads(pipe("estimate", "--offline", stdin=asked).stdout)
        self.assertEqual((told["code"], told["pointer"]), ("revision-not-found", "/revision"))

    def test_a_file_is_a_request(self):
        question = {"model": "openai-community/gpt2", "cluster": {"gpu": "T4"}, "training": {"tuning": "lora", "seq_len": 128}}
        with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
            json.dump(question, f)
            f.flush()
            of_file, of_words = pipe("estimate", f.name), pipe("estimate", *ONE)
            self.assertEqual(of_file.returncode, 0)
            self.assertEqual(json.loads(of_file.stdout)["candidates"], json.loads(of_words.stdout)["candidates"])
            self.assertEqual(pipe("estimate", "-", stdin=json.dumps(question)).stdout, of_file.stdout)
            self.assertEqual(pipe("estimate", stdin=json.dumps(question)).stdout, of_file.stdout)
            both = pipe("estimate", f.name, "--gpu", "T4")
            self.assertEqual(both.returncode, 2)
            self.assertIn("a file is the whole request", both.stderr)
        gone = pipe("estimate", "nowhere.json")
        self.assertEqual((gone.returncode, gone.stderr), (2, "llmemd estimate: nowhere.json: No such file or directory\n"))

    def test_colours_and_blocks(self):
        self.assertIn("\033[", terminal("estimate", *ONE)[1])
        self.assertNotIn("\033[", terminal("estimate", *ONE, NO_COLOR="1")[1])
        self.assertIn("\033[", terminal("estimate", *ONE, NO_COLOR="")[1])
        self.assertNotIn("\033[", pipe("estimate", "--table", *ONE).stdout)
        self.assertIn("█", terminal("estimate", *ONE)[1])
        ascii_ = terminal("estimate", *ONE, LC_ALL="C")[1]
        self.assertNotIn("█", ascii_)
        self.assertIn("#", ascii_)
        self.assertEqual(rows(ascii_), rows(terminal("estimate", *ONE)[1]))

    def test_lines_keep_to_the_columns(self):
        for columns in (80, 100, 120, 160):
            for line in plain(terminal("estimate", *QUESTIONS[2], columns=columns)[1]).split("\n"):
                self.assertLessEqual(len(line), columns, line)

    def test_mistakes_say_what_to_do(self):
        for args, told in ((["versoin"], "did you mean version?"), (["serve", "--port", "80"], "--listen"), (["serve", "--lisen", "x"], "did you mean --listen?"),
                           (["gpus", "--jsn"], "llmemd gpus --help"), (["gpus", "RTX4091"], "RTX 4090"), (["models", "nothing-is-so"], "nothing has"),
                           (["completion", "tcsh"], "bash, zsh or fish"), (["estimate", "--model", "gpt2", "--gpu"], "--gpu: it takes a value"),
                           (["estimate", "--model", "gpt2", "--gpu", "A1OO"], "--gpu: 'A1OO' is no GPU that is known: llmemd gpus lists them")):
            code, text = terminal(*args)
            self.assertEqual(code, 2, args)
            self.assertIn(told, plain(text).replace("\n  ", " "), args)
        code, text = terminal("estimate")
        self.assertEqual(code, 2)
        self.assertIn("llmemd estimate --model", text)
        taken = socket.create_server(("127.0.0.1", 0))
        where = "127.0.0.1:%d" % taken.getsockname()[1]
        r = pipe("serve", "--listen", where)
        self.assertNotEqual(r.returncode, 0)
        self.assertIn("--listen %s: Address already in use" % where, r.stderr)
        self.assertIn("--listen 127.0.0.1:0 takes a free port", r.stderr)
        taken.close()

    def test_every_command_has_help(self):
        whole = pipe("--help")
        self.assertEqual(whole.returncode, 0)
        commands = re.findall(r"^  llmemd ([a-z]+) +", whole.stdout, re.M)
        self.assertGreaterEqual(set(commands), {"serve", "estimate", "models", "gpus", "clusters", "methods", "optimizers", "completion", "manual", "version", "help"})
        for c in set(commands) - {"version", "help"}:
            for args in ([c, "--help"], ["help", c]):
                r = pipe(*args)
                self.assertEqual((r.returncode, r.stderr), (0, ""), args)
                self.assertTrue(r.stdout.startswith("llmemd " + c), args)
        self.assertRegex(pipe("version").stdout, r"^llmemd \d+\.\d+\.\d+\n$")
        self.assertEqual(pipe("version").stdout, pipe("--version").stdout)
        for flag in ("--seq-len", "--lora.rank", "--gpus-per-node", "--transformers", "--snapshot", "--gpu"):
            self.assertIn(flag, pipe("estimate", "--help").stdout)

    def test_help_keeps_to_the_columns(self):
        for columns in (80, 100, 140):
            for args in (["--help"], ["serve", "--help"], ["estimate", "--help"]):
                code, text = terminal(*args, columns=columns)
                self.assertEqual(code, 0)
                self.assertLessEqual(max(map(len, text.split("\n"))), columns, args)
                whole = pipe(*args).stdout
                self.assertEqual(text.replace("\\\n", "").split(), whole.split(), args)  # nothing is left out

    def test_lists(self):
        models = pipe("models").stdout.split("\n")[:-1]
        self.assertEqual(models, [m["id"] for m in json.loads(pipe("models", "--json").stdout)["models"]])
        self.assertEqual(pipe("models", "qwen2.5-7b").stdout.split("\n")[:-1], [m for m in models if "qwen2.5-7b" in m.lower()])
        self.assertIn("bf16_tflops", pipe("gpus", "A100").stdout)
        self.assertIn("A100-40GB SXM", pipe("gpus", "A100").stdout.split("\n")[0])
        self.assertEqual(json.loads(pipe("gpus", "4090", "--json").stdout)["name"], "RTX 4090")
        self.assertIn("RTX A6000", pipe("gpus", "rtx a").stdout)
        self.assertIn("retired", plain(terminal("clusters")[1]))
        self.assertIn("modelled", pipe("methods", "zero3").stdout)

    def test_the_manual_has_every_option_and_member(self):
        man, help_ = pipe("manual").stdout.replace("\\-", "-"), pipe("serve", "--help").stdout
        for flag in re.findall(r"^  (--[a-z-]+)", help_, re.M):
            self.assertIn(flag, man)
        for flag in re.findall(r"--[a-z][a-z0-9.-]+", pipe("estimate", "--help").stdout.split("members of the request")[1].split("options, and")[0]):
            self.assertIn(".B %s\n" % flag, man)

    def test_completion(self):
        script = pipe("completion", "bash").stdout
        with tempfile.TemporaryDirectory() as d:
            os.symlink(LLMEMD, os.path.join(d, "llmemd"))
            for typed, one in ((["est"], "estimate"), (["estimate", "--tuni"], "--tuning"), (["estimate", "--tuning", "l"], "lora"),
                               (["estimate", "--model", "facebook/opt-12"], "facebook/opt-125m"), (["estimate", "--gpu", "RTX\\ 40"], "RTX\\ 4090"),
                               (["serve", "--lis"], "--listen"), (["completion", "f"], "fish")):
                words = ["llmemd"] + typed
                run = "%s\nCOMP_WORDS=(%s); COMP_CWORD=%d; _llmemd; printf '%%s\\n' \"${COMPREPLY[@]}\"" % (script, " ".join(words), len(words) - 1)
                r = subprocess.run(["bash", "-c", run], capture_output=True, text=True, env=env(PATH=d + ":" + os.environ["PATH"]))
                self.assertIn(one, r.stdout.split("\n"), (typed, r.stderr))
        self.assertTrue(pipe("completion", "zsh").stdout.startswith("#compdef llmemd\n"))
        self.assertIn("complete -c llmemd", pipe("completion", "fish").stdout)

    def test_what_the_docs_say_runs(self):
        lines = []
        for name in ("tutorial", "how-to", "terminal"):
            with open("docs/%s.md" % name, encoding="utf-8") as f:
                for block in re.findall(r"```sh\n(.*?)```", f.read(), re.S):
                    lines += [line for line in block.split("\n") if line.startswith("llmemd ")]
        self.assertGreaterEqual(len(lines), 10)
        for line in lines:
            words = shlex.split(line.split(" > ")[0])[1:]
            r = pipe(*words)
            self.assertIn(r.returncode, (0, 3), (line, r.stderr))
            if words[0] == "estimate":
                self.assertIsNotNone(json.loads(r.stdout)["fits"], line)

    def test_where_to_click(self):
        master, slave = pty.openpty()
        p = subprocess.Popen([LLMEMD, "serve", "--offline", "--listen", "127.0.0.1:0"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=slave, env=env())
        os.close(slave)
        try:
            text = b""
            while text.count(b"\n") < 2:
                text += os.read(master, 4096)
            self.assertRegex(text.decode(), r"listening on (http://127\.0\.0\.1:\d+)\r\nopen \1/ in a browser")
        finally:
            p.terminate()
            p.wait(60)
            os.close(master)


if __name__ == "__main__":
    result = unittest.TextTestRunner(stream=sys.stderr, verbosity=0).run(unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"]))
    print("%d passed, %d failed" % (result.testsRun - len(result.failures) - len(result.errors), len(result.failures) + len(result.errors)))
    sys.exit(not result.wasSuccessful())
