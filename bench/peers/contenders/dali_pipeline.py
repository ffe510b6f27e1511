"""A DALI pipeline without a GPU."""

from nvidia.dali import fn, math, pipeline_def, types
from nvidia.dali.plugin.pytorch import DALIGenericIterator
from works import MEAN, SIDE, STD

from contenders.settings import SETTINGS

SET = SETTINGS["dali_pipeline"]

SAMPLES, STEP, WINDOW, BINS = 480000, 160, 400, 80  # of Whisper's 30 s at 16 kHz


def read(data):
    encoded, _ = fn.readers.file(files=[str(path) for path in data.all_files], random_shuffle=False, name="reader")
    return encoded


@pipeline_def
def square(data):
    pictures = fn.decoders.image(read(data), device="cpu", output_type=types.RGB)
    resized = fn.resize(pictures, resize_x=SIDE, resize_y=SIDE, interp_type=getattr(types, SET["interp_type"]),
                        antialias=SET["antialias"])
    return fn.crop_mirror_normalize(resized, dtype=types.FLOAT, output_layout="CHW", mean=[255 * MEAN] * 3,
                                    std=[255 * STD] * 3)


@pipeline_def
def log_mel(data):
    sound, _ = fn.decoders.audio(read(data), sample_rate=16000, downmix=True, dtype=types.FLOAT)
    padded = fn.slice(sound, 0, SAMPLES, axes=[0], out_of_bounds_policy="pad")
    power = fn.spectrogram(padded, nfft=WINDOW, window_length=WINDOW, window_step=STEP, power=2)
    mel = fn.mel_filter_bank(power, nfilter=BINS, sample_rate=16000, freq_low=0.0, freq_high=8000.0,
                             mel_formula="slaney", normalize=True)
    # Decibels of power over 10 are log10; the last of 3001 frames is left out, as Whisper does.
    logs = fn.to_decibels(mel, multiplier=1.0, reference=1.0, cutoff_db=-10.0)
    logs = fn.slice(logs, 0, SAMPLES // STEP, axes=[1])
    floor = fn.reductions.max(logs) - 8.0
    return (math.max(logs, floor) + 4.0) / 4.0


def batches(work, data, variant, ordered):
    made = {"square": square, "log_mel": log_mel}[work.output]
    pipeline = made(data, batch_size=work.batch, num_threads=SET["num_threads"], device_id=None,
                    prefetch_queue_depth=SET["prefetch_queue_depth"])
    pipeline.build()
    for (batch,) in DALIGenericIterator(pipeline, ["values"], reader_name="reader", auto_reset=False):
        yield batch["values"]


