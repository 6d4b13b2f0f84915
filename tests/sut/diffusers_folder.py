"""Runs in native torch's environment: `python -m tests.sut.diffusers_folder SPEC.json` saves our
seeded checkpoint as diffusers does.

SPEC: `checkpoint`, `folder`, and `prompts`, whose ids by the pipeline's own tokenizer go into
ids.json beside the specification.
"""

import json
import sys
from pathlib import Path

import diffusers
import transformers

from tests.support.tokens import clip


def main(specification):
    spec = json.loads(specification.read_text())
    vocabulary, merges = clip()
    pipeline = diffusers.StableDiffusionPipeline(
        vae=diffusers.AutoencoderKL.from_pretrained(spec["checkpoint"], subfolder="vae"),
        text_encoder=transformers.CLIPTextModel.from_pretrained(
            Path(spec["checkpoint"]) / "text_encoder"
        ),
        tokenizer=transformers.CLIPTokenizer(vocab=vocabulary, merges=merges, model_max_length=77),
        unet=diffusers.UNet2DConditionModel.from_pretrained(spec["checkpoint"], subfolder="unet"),
        scheduler=diffusers.PNDMScheduler(),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )
    pipeline.save_pretrained(spec["folder"])
    ids = [pipeline.tokenizer(prompt, padding="max_length").input_ids for prompt in spec["prompts"]]
    specification.with_name("ids.json").write_text(json.dumps(ids))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
