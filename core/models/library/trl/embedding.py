"""sentence-transformers 6.2.0: SentenceTransformerTrainer over pairs, mean pooling, losses/multiple_negatives_ranking.py with what it has by default."""
import torch
import torch.nn.functional as F
from torch._formulas import sum_to

from transformers.trl.prepared import Prepared
from transformers.utils.generic import ModelOutput


class Features(ModelOutput):
    def __init__(self, **features):
        for name, value in features.items():
            self[name] = value


class Sentences:
    """base/modules/transformer.py, sentence_transformer/modules/pooling.py: what each makes stays with the features."""

    def __init__(self, model):
        self.model = model

    def transform(self, features):
        model_output = self.model(**features)
        features["token_embeddings"] = model_output["last_hidden_state"]

    def pooled(self, token_embeddings, attention_mask):
        half = token_embeddings.dtype in (torch.float16, torch.bfloat16)
        dtype = torch.float32 if half else token_embeddings.dtype
        mask = attention_mask.unsqueeze(-1).to(token_embeddings.dtype)
        mean_sum = sum_to(token_embeddings * mask, 1, dtype)
        mean_mask = sum_to(mask, 1, dtype)
        mean_mask = torch.clamp(mean_mask, min=1e-9)
        mean_embedding = mean_sum / mean_mask
        return mean_embedding.to(token_embeddings.dtype)

    def pool(self, features):
        token_embeddings = features["token_embeddings"]
        if "attention_mask" in features:
            attention_mask = features["attention_mask"]
        else:
            attention_mask = torch.ones(token_embeddings.shape[:-1], device=token_embeddings.device, dtype=torch.int64)
        vectors = [self.pooled(token_embeddings, attention_mask)]
        features["sentence_embedding"] = torch.cat(vectors, dim=-1)

    def __call__(self, features):
        self.transform(features)
        self.pool(features)
        return Features(**features)


class Wrapped(Prepared):
    def __call__(self, features):
        return super().__call__(features=features)


def prepare(model, reference):
    return Wrapped(Sentences(model))


def normalized(x):
    return F.normalize(x.to(torch.float32), p=2, dim=-1)


def cos_sim(a, b):
    a_norm = normalized(a)
    b_norm = normalized(b)
    return torch.matmul(a_norm, b_norm.transpose(0, 1))


def ranking(queries, docs):
    batch_size = queries.size(0)
    docs_all = torch.cat([docs], dim=0)
    local_indices = torch.arange(batch_size, device=queries.device)
    row_indices = torch.arange(batch_size, device=queries.device)
    local_queries = queries[local_indices]
    local_docs = docs[local_indices]
    similarity = cos_sim(local_queries, docs_all)
    similarity = similarity * 20.0
    positive_scores = similarity[row_indices, local_indices]
    scores = torch.cat([similarity], dim=1)
    log_z = torch.logsumexp(scores, dim=1)
    return -(positive_scores - log_z).mean()


def compute_loss(model, inputs):
    features = []
    for prefix in ("", "positive_"):
        names = [name for name in ("input_ids", "attention_mask", "token_type_ids") if prefix + name in inputs]
        features.append({name: inputs[prefix + name] for name in names})
    embeddings = [model(one)["sentence_embedding"] for one in features]
    return ranking(embeddings[0], embeddings[1])
