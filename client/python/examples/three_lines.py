#!/usr/bin/env python3
"""A small mixture-of-experts decoder that learns to count, watched by foreshockd.

    three_lines.py                 # the daemon on this machine (make run starts one)
    three_lines.py --steps 200

Without a daemon it trains just the same. The three lines are marked.
"""

import argparse

import torch
from torch import nn

import foreshock  # 1

D, HEADS, EXPERTS, TOP_K, VOCABULARY, LENGTH = 32, 4, 4, 2, 16, 24


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.num_heads, self.head_dim = HEADS, D // HEADS
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(D, D) for _ in range(4))

    def forward(self, x):
        q, k, v = (p(x).unflatten(-1, (HEADS, -1)).transpose(1, 2)
                   for p in (self.q_proj, self.k_proj, self.v_proj))  # fmt: skip
        mask = torch.full((x.shape[1], x.shape[1]), float("-inf")).triu(1)
        p = (q @ k.transpose(2, 3) / self.head_dim**0.5 + mask).softmax(-1)
        return self.o_proj((p @ v).transpose(1, 2).flatten(2))


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.top_k = TOP_K
        self.gate = nn.Linear(D, EXPERTS, bias=False)
        self.experts = nn.ModuleList([nn.Linear(D, D) for _ in range(EXPERTS)])

    def forward(self, x):
        weights, chosen = self.gate(x).softmax(-1).topk(self.top_k)
        shares = torch.zeros(*x.shape[:-1], EXPERTS).scatter(-1, chosen, weights)
        return sum(shares[..., i : i + 1] * e(x).relu() for i, e in enumerate(self.experts))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.self_attn, self.mlp = Attention(), Experts()
        self.norm1, self.norm2 = nn.LayerNorm(D), nn.LayerNorm(D)

    def forward(self, x):
        x = x + self.self_attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--run", default="three-lines")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(VOCABULARY, D), Block(), Block(), nn.Linear(D, VOCABULARY))
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)

    monitor = foreshock.watch(model, optimizer, run=arguments.run)  # 2

    for step in range(arguments.steps):
        start = torch.randint(VOCABULARY, (8, 1))
        tokens = (start + 3 * torch.arange(LENGTH + 1)) % VOCABULARY
        logits = model(tokens[:, :-1]).flatten(0, 1)
        loss = nn.functional.cross_entropy(logits, tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        grad_norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

        monitor.step(step, loss=loss, grad_norm=grad_norm)  # 3

    monitor.close()
    stats = monitor.stats()
    print(f"loss {loss.item():.3f}; committed {stats.client.committed}, dropped {stats.dropped}")


if __name__ == "__main__":
    main()
