"""Runs in native torch's environment: `python -m tests.sut.diffusers_folder SPEC.json` saves our
seeded checkpoint as diffusers does.

SPEC: `checkpoint`, `folder`, and `prompts`, whose ids by the pipeline's own tokenizer go into
ids.json beside the specification.
"""

import sys
from pathlib import Path

import diffusers
import transformers

from formats.writing import write_json
from tests.support.files import read_json
from tests.support.tokens import clip


def main(specification):
    spec = read_json(specification)
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
    write_json(specification.with_name("ids.json"), ids)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
