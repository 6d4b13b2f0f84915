"""A user's pictures: how they are read, and which are refused by name."""

import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from harness.errors import UsageError
from harness.inputs import architectures, dataset, models, pictures

SIDE = 32
RED, GREEN = (200, 20, 10), (10, 180, 30)


def halves(width=40, height=20, mode="RGB"):
    """Red on the left, green on the right."""
    picture = Image.new("RGB", (width, height), RED)
    picture.paste(GREEN, (width // 2, 0, width, height))
    return picture.convert(mode)


def read(folder):
    arrays, notes = pictures.read(folder, SIDE)
    return arrays["image"], arrays, notes


def near(pixel, colour, within=2):
    return np.abs(pixel * 255 - np.array(colour)).max() <= within


def test_the_longer_side_is_resized_and_the_rest_is_the_mean_colour(tmp_path):
    halves().save(tmp_path / "a.png")
    (image,), arrays, (note,) = read(tmp_path)
    assert image.dtype == np.float32 and image.shape == (SIDE, SIDE, 3)
    assert near(image[8, 4], RED) and near(image[8, 28], GREEN)
    assert (image[16:] == np.float32(pictures.MEAN)).all() and not (
        image[15] == np.float32(pictures.MEAN)
    ).any()
    assert arrays["points"].tolist() == [[[16, 8], [0, 0]]] and arrays["labels"].tolist() == [
        [1, 0]
    ]
    assert "1 picture, each with 2 points" in note


def test_a_picture_is_turned_as_its_camera_says(tmp_path):
    exif = Image.Exif()
    # The camera was held upright: the first row of the file is the right side of the picture.
    exif[0x0112] = 6
    halves().save(tmp_path / "a.jpg", quality=95, exif=exif)
    (image,), _, _ = read(tmp_path)
    assert near(image[4, 8], RED, 8) and near(image[28, 8], GREEN, 8)
    assert (image[:, 17:] == np.float32(pictures.MEAN)).all()


def test_grey_sixteen_bits_and_transparency_become_eight_bits_of_three_colours(tmp_path):
    halves(mode="L").save(tmp_path / "grey.png")
    Image.fromarray(np.full((SIDE, SIDE), 257 * 100, np.uint16)).save(tmp_path / "sixteen.png")
    Image.new("RGBA", (SIDE, SIDE), (0, 0, 0, 0)).save(tmp_path / "transparent.png")
    palette = halves().quantize(2)
    palette.save(tmp_path / "palette.png", transparency=palette.getpixel((0, 0)))
    halves(mode="CMYK").save(tmp_path / "print.jpg", quality=95)
    names = [path.name for path in pictures.files(tmp_path)]
    images = dict(zip(names, read(tmp_path)[0], strict=True))
    assert len(set(images["grey.png"][8, 4].tolist())) == 1
    assert near(images["sixteen.png"][5, 5], (100, 100, 100))
    assert near(images["transparent.png"][5, 5], (255, 255, 255))
    assert near(images["palette.png"][8, 4], (255, 255, 255)) and near(
        images["palette.png"][8, 28], GREEN
    )
    assert near(images["print.jpg"][8, 4], RED, 8)


def cut(path):
    path.write_bytes(path.read_bytes()[:-40])


def says(width, height):
    """A PNG file whose header alone names these dimensions."""

    def damage(path):
        head = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
        path.write_bytes(
            b"\x89PNG\r\n\x1a\n"
            + struct.pack(">I", 13)
            + head
            + struct.pack(">I", zlib.crc32(head))
            + path.read_bytes()[33:]
        )

    return damage


def gif(path):
    halves().save(path.with_suffix(".gif"))
    path.with_suffix(".gif").rename(path)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda path: path.write_bytes(b""), "no whole JPEG or PNG file"),
        (lambda path: path.write_text("no picture"), "no whole JPEG or PNG file"),
        (cut, "no whole JPEG or PNG file"),
        (gif, "no whole JPEG or PNG file"),
        (says(12_000, 12_000), "12000 x 12000 pixels"),
        (says(200_000, 200_000), "unpacks to far more pixels than 100 million"),
    ],
)
def test_what_is_no_picture_or_unpacks_to_a_huge_one_is_refused_by_name(tmp_path, damage, words):
    halves(200, 200).save(tmp_path / "a.png")
    halves(200, 200).save(tmp_path / "b.png")
    damage(tmp_path / "b.png")
    with pytest.raises(UsageError, match=f"b.png: .*({words})"):
        read(tmp_path)


def test_a_folder_without_pictures_and_a_file_are_refused(tmp_path):
    with pytest.raises(UsageError, match="no picture is in it"):
        pictures.files(tmp_path)
    (tmp_path / "a.png").write_bytes(b"")
    with pytest.raises(UsageError, match="is a file; give a folder"):
        pictures.files(tmp_path / "a.png")


def test_a_folder_is_counted_and_warmed_up_with_as_many_points_as_it_is_read_with(tmp_path):
    sam = models.load("sam")
    folder = tmp_path / "photos"
    folder.mkdir()
    for name in ("a.png", "b.png"):
        halves().save(folder / name)
    (folder / "notes.txt").write_text("not read")
    found = dataset.prepare(sam, sam.sizes["tiny"], 64, folder, tmp_path / "cache")
    assert found.notes[1].endswith("not read: notes.txt")
    assert found.count == 2 == architectures.of(sam).count(folder)
    with np.load(found.path) as inputs, np.load(found.synthetic) as synthetic:
        assert {k: (v.dtype, v.shape[1:]) for k, v in inputs.items()} == {
            k: (v.dtype, v.shape[1:]) for k, v in synthetic.items()
        }
        assert len(synthetic["image"]) == 3
