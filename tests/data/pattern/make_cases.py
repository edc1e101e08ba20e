"""Writes cases.txt: what CPython's re.fullmatch says of patterns and module names. A line: 1, 0 or e (an error), name, pattern."""
import random
import re
import sys
import warnings

warnings.simplefilter("error")
random.seed(7)

NAMES = ["model.layers.0.self_attn.q_proj", "model.layers.11.mlp.down_proj", "model.layers.3.mlp.experts.7.up_proj", "lm_head", "a", "ab", "aab", "Q_PROJ",
         "model.language_model.layers.30.self_attn.v_proj", "visual.blocks.2.attn.qkv", "model.embed_tokens", "transformer.h.5.attn.c_attn", "x-y", "a.b", "", "b", "aa", "abab", "model", "proj", "_a", "q.a", "7"]
WRITTEN = [
    r".*q_proj", r".*\.(q|v)_proj", r".*(q_proj|v_proj|k_proj|o_proj)$", r"^(?!.*visual).*(?:q_proj|k_proj|v_proj)$", r"model\.layers\.\d+\.self_attn\.[qkvo]_proj",
    r"model.language_model.layers.[\d]+.(mlp|cross_attn|self_attn).(up|down|gate|q|k|v|o)_proj", r"^(model\.language_model(?=\.).*\.(q_proj|v_proj))$", r"q_proj", r"all",
    r"model\.layers\.(\d|1[0-5])\..*proj", r".*layers\.[0-9]{1,2}\.mlp\..*", r"(?i).*q_proj", r"(?i:q)_proj|.*Q_PROJ", r".*\bself_attn\b.*", r".*(?<!self_attn\.)down_proj",
    r".*(?<=mlp\.)down_proj", r".*experts\.\d+\.(?P<which>up|down)_proj", r"(?:.*\.)?lm_head", r"\Amodel.*\Z", r"a{2,}b", r"a{,2}b", r"a{1}b?", r"a{x", r"(a|ab)(b|)", r"[^.]+",
    r"[\w.]+", r"[]a]", r"[a-]", r"[a-c-e]", r"a*?b", r"a+?", r"(a?){3}b", r"(a*)*b", r"(?#note)a", r"", r"|a", r"a||b", r".*\.[^.]*\.(\d+)\..*", r"\x61b", r"\.", r"a\.b",
    r"*a", r"a**", r"(a", r"a)", r"[a", r"a{2,1}", r"\q", r"(?P<n>a)(?P=n)", r"(a)\1", r"(?>a)b", r"a++", r"(?x)a", r"^*", r"[b-a]", r"a\\", r"(?P<n", r"(?z)a", r"(?<=a+)b", r"b(?i)a",
]
# What CPython reads and we refuse: backreferences, atomic groups, possessive repetition, the flag x.
REFUSED = {r"(?P<n>a)(?P=n)", r"(a)\1", r"(?>a)b", r"a++", r"(?x)a"}


def piece(depth):
    if depth and random.random() < 0.35:
        inner = "|".join("".join(piece(depth - 1) for _ in range(random.randint(0, 3))) for _ in range(random.randint(1, 3)))
        p = random.choice(["(%s)", "(?:%s)", "(?=%s)", "(?!%s)"]) % inner
    else:
        p = random.choice(["a", "b", ".", "[ab]", "[^a]", r"\w", r"\d", r"\.", "_", r"\b", "^", "$", r"\W", "proj", "model", r"[\d.]", "q"])
    if random.random() < 0.4:
        p += random.choice(["*", "+", "?", "{2}", "{0,2}", "{1,}", "*?", "??", "{,1}", "{0}"])
    return p


def verdict(pattern, name):
    if pattern in REFUSED:
        return "e"
    try:
        return "1" if re.fullmatch(pattern, name) else "0"
    except (re.error, Warning):
        return "e"


patterns = WRITTEN + ["".join(piece(3) for _ in range(random.randint(1, 5))) for _ in range(800)]
with open(sys.argv[1], "w") as f:
    for p in patterns:
        for name in NAMES if p in WRITTEN else random.sample(NAMES[-10:], 5):
            f.write("%s\t%s\t%s\n" % (verdict(p, name), name, p))
