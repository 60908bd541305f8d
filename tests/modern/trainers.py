"""A few steps of each real trainer, watched; trainers_test.py runs them against a daemon.

    trainers.py NAME FOLDER SERVER      # the run is called NAME

The models are tiny, the texts made up, and nothing is fetched.
"""

import pathlib
import sys

import torch
import transformers

import foreshock

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "python")]
import families  # noqa: E402
import standins  # noqa: E402

FAMILY = "Qwen3-MoE"
STEPS, SIZE, LENGTH = 4, 4, 8  # of a batch: sequences, tokens of one
SAMPLING = {"router": {"every": 1, "weights_every": 2}, "spectra": {"every": 2, "groups": 1},
            "gradients": {"every": 1}}  # fmt: skip


def watched(name, server):
    """The options of watch and of every callback."""
    return dict(run=name, server=server, sampling=SAMPLING, strict=True)


def tokenizer():
    from tokenizers import Tokenizer, models, pre_tokenizers

    special = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    words = [*special.values(), *(f"w{i}" for i in range(families.VOCABULARY - len(special)))]
    made = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, **special)


def texts():
    return [" ".join(f"w{(3 * i + j) % 60}" for j in range(LENGTH)) for i in range(64)]


def data():
    rows = tokenizer()(texts())["input_ids"]
    return [{"input_ids": torch.tensor(row), "labels": torch.tensor(row)} for row in rows]


def options(folder, **more):
    return dict(output_dir=str(folder / "out"), max_steps=STEPS, logging_steps=1, use_cpu=True,
                per_device_train_batch_size=SIZE, report_to=[], save_strategy="no",
                disable_tqdm=True, bf16=False, **more)  # fmt: skip


def callback(name, server):
    from foreshock.integrations.huggingface import ForeshockCallback

    return ForeshockCallback(**watched(name, server))


def on_disk(folder):
    """The model's folder, from which a trainer loads its reference model."""
    families.build(FAMILY).save_pretrained(folder / "model")
    return transformers.AutoModelForCausalLM.from_pretrained(folder / "model")


def trainer(name, folder, server):
    """Two batches a step, checkpoints and evaluation in between."""
    more = options(folder, gradient_accumulation_steps=2, eval_strategy="steps", eval_steps=2)
    args = transformers.TrainingArguments(**{**more, "save_strategy": "steps", "save_steps": 2})
    transformers.Trainer(families.build(FAMILY), args, train_dataset=data(),
                         eval_dataset=data()[:8], callbacks=[callback(name, server)]).train()


def trainer_compiled(name, folder, server):
    args = transformers.TrainingArguments(**options(folder, torch_compile=True,
                                                    torch_compile_backend="aot_eager"))
    transformers.Trainer(families.build("Qwen3"), args, train_dataset=data(),
                         callbacks=[callback(name, server)]).train()


def accelerate(name, folder, server):
    import accelerate as library

    accelerator = library.Accelerator(cpu=True, gradient_accumulation_steps=2)
    model = families.build(FAMILY)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    loader = torch.utils.data.DataLoader(data(), batch_size=SIZE)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    monitor = foreshock.watch(model, optimizer, **watched(name, server))
    batches = (batch for _ in range(STEPS) for batch in loader)
    for step in range(1, STEPS + 1):
        for _ in range(2):
            with accelerator.accumulate(model):
                loss = model(**next(batches)).loss
                accelerator.backward(loss)
                grad_norm = (accelerator.clip_grad_norm_(model.parameters(), 1.0)
                             if accelerator.sync_gradients else None)
                optimizer.step()
                optimizer.zero_grad()
        monitor.step(step, loss=loss, grad_norm=grad_norm)
    assert monitor.close(), monitor.stats()


def lightning(name, folder, server):
    import pytorch_lightning as library
    from foreshock.integrations.lightning import ForeshockCallback

    class Module(library.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = families.build(FAMILY)

        def forward_loss(self, batch):
            return self.model(**batch).loss

        def training_step(self, batch, _):
            loss = self.forward_loss(batch)
            self.log("train_accuracy", torch.tensor(0.5))
            return loss

        def validation_step(self, batch, _):
            self.log("val_loss", self.forward_loss(batch))

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), 1e-3)

    def loader(rows):
        return torch.utils.data.DataLoader(rows, batch_size=SIZE)

    made = library.Trainer(
        max_steps=STEPS, accelerator="cpu", logger=False, enable_progress_bar=False,
        default_root_dir=folder, accumulate_grad_batches=2, val_check_interval=4,
        callbacks=[ForeshockCallback(**watched(name, server))])
    made.fit(Module(), loader(data()), loader(data()[:8]))


def sft(name, folder, server):
    import datasets
    import trl

    args = trl.SFTConfig(max_length=LENGTH, gradient_checkpointing=True, **options(folder))
    trl.SFTTrainer(families.build(FAMILY), args=args, processing_class=tokenizer(),
                   train_dataset=datasets.Dataset.from_dict({"text": texts()}),
                   callbacks=[callback(name, server)]).train()


def dpo(name, folder, server):
    import datasets
    import trl

    pairs = {"prompt": ["w1 w2"] * 64, "chosen": texts(), "rejected": texts()[::-1]}
    trl.DPOTrainer(on_disk(folder), args=trl.DPOConfig(max_length=LENGTH, **options(folder)),
                   processing_class=tokenizer(), train_dataset=datasets.Dataset.from_dict(pairs),
                   callbacks=[callback(name, server)]).train()


def grpo(name, folder, server):
    import datasets
    import trl

    args = trl.GRPOConfig(num_generations=SIZE, max_completion_length=6, beta=0.1,
                          **options(folder))
    trl.GRPOTrainer(on_disk(folder), args=args, processing_class=tokenizer(),
                    reward_funcs=lambda completions, **_: [float(len(set(c.split())))
                                                           for c in completions],
                    train_dataset=datasets.Dataset.from_dict({"prompt": ["w1 w2 w3"] * 64}),
                    callbacks=[callback(name, server)]).train()


if __name__ == "__main__":
    torch.manual_seed(1)
    globals()[sys.argv[1]](sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3])
