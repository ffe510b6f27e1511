"""Finds the directory of a model: one that was given, or the snapshot in the hub's cache for a name of the hub."""

import collections
import os
from typing import Any, Counter, Optional, Tuple, Union

from isocost.base.hub_names import download_command, is_hub_name
from isocost.rendezvous import rendezvous
from isocost.rendezvous.once import host, once

# All files of a model that are read. Weights and code are not among them.
FILES = ("config.json", "generation_config.json", "preprocessor_config.json", "processor_config.json",
         "video_preprocessor_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
         "chat_template.jinja", "chat_template.json")
# Each model has one of each of these.
_NEEDED = (("config.json",), ("tokenizer.json",), ("preprocessor_config.json", "processor_config.json"))

_asked: Counter[Tuple[str, str]] = collections.Counter()  # How often this process has looked for a name and revision.


def model_directory(model: Union[None, str, "os.PathLike[str]"], revision: Optional[str], here: rendezvous.Process,
                    timeout_s: float) -> Optional[str]:
    """Returns the directory of a model, or None without one.

    A path is returned as it was given. For a name of the hub, the package huggingface_hub finds the files that are
    read in its cache, or downloads them. One of the processes on each host does this, and the others block until it is
    done, for up to `timeout_s` seconds; all hosts use the same commit. Processes that have neither a process group nor
    MASTER_ADDR look for it one by one.

    Args:
        model: a directory, or text OWNER/NAME that is not a directory here, the name of a model on the hub.
        revision: branch, tag or commit of a name; None: the hub's default, main.
        here: this process among those that train together.
    Raises: TypeError for arguments of another type. ValueError for a revision of a directory, or one that the hub does
        not have. FileNotFoundError for what is neither a directory nor a name, a name that the hub does not have, and
        one that is not in the cache where HF_HUB_OFFLINE is set. PermissionError where the hub wants another access
        token. ConnectionError where the hub cannot be reached and the cache lacks the name. OSError where files cannot
        be downloaded. ImportError for a name without the package huggingface_hub. TimeoutError where the process that
        looks for it takes too long. The processes of a host raise the same error.
    """
    _check_revision(model, revision)
    if model is None:
        return None
    path = os.fsdecode(model)
    if os.path.isdir(path):
        if revision is not None:
            raise ValueError(f"revision = {revision!r}: model = {path!r} is a directory, which has no revisions: leave "
                             "it out, or give the name of a model on the hub that is no directory here")
        return path
    if not isinstance(model, str) or not is_hub_name(model):
        raise FileNotFoundError(f"model = {model!r}: it is neither a directory here nor the name of a model on the "
                                "hub, which is text such as \"Qwen/Qwen3.5-4B\"")
    return _found_once(HubName(model, revision), here, timeout_s)


def _check_revision(model: Any, revision: Any) -> None:
    if revision is None:
        return
    if not isinstance(revision, str):
        raise TypeError(f"revision = {revision!r}: must be text, a branch, tag or commit of the model on the hub")
    if model is None:
        raise ValueError(f"revision = {revision!r}: there is no model=, whose revision it would be")
    if not revision:
        raise ValueError("revision = '': must be a branch, tag or commit; leave it out for main")


class HubName:
    """A model on the hub."""

    def __init__(self, name: str, revision: Optional[str]):
        self.name = name
        self.revision = revision

    def __str__(self) -> str:
        return f"model = {self.name!r}" + ("" if self.revision is None else f", revision = {self.revision!r}")

    def download(self) -> str:
        """Returns the command that downloads the files into the cache."""
        return download_command(self.name, "" if self.revision is None else f" --revision {self.revision}")

    def snapshot(self) -> str:
        """Returns the directory with its files. Downloads those that the cache lacks."""
        try:
            import huggingface_hub
        except ImportError as error:
            raise ImportError(f"{self}: there is no such directory here, and names of the hub need the package "
                              f"huggingface_hub ({error}): pip install huggingface_hub (the extra isocost[models]), or "
                              "give a directory") from None
        try:
            directory = str(huggingface_hub.snapshot_download(self.name, revision=self.revision,
                                                              allow_patterns=list(FILES)))
        except Exception as error:  # Errors of the HTTP client, which differs between versions of the package, too.
            raise _explained(self, error, huggingface_hub) from error
        self._check_whole(directory)
        return directory

    def _check_whole(self, directory: str) -> None:
        missing = [" or ".join(names) for names in _NEEDED
                   if not any(os.path.isfile(os.path.join(directory, name)) for name in names)]
        if missing:
            raise FileNotFoundError(
                f"{self}: {directory}, where the hub's cache has its files, lacks {', '.join(missing)}. If the hub has "
                f"the file, {self.download()} fetches it. Otherwise transformers may write it: "
                f"AutoProcessor.from_pretrained({self.name!r}).save_pretrained(DIR), with the config.json of the "
                "model beside it: give that directory")


def _found_once(name: HubName, here: rendezvous.Process, timeout_s: float) -> str:
    store = rendezvous.endpoints.store(here, timeout_s)
    if store is None:
        return name.snapshot()
    asked = name.name, name.revision or ""
    _asked[asked] += 1
    key = "/".join(["isocost", os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"), "model", *asked, str(_asked[asked])])

    def find() -> str:
        directory = name.snapshot()
        # A branch may have moved since another host asked, and caches may hold different commits of it.
        commit = once(store, key, timeout_s, lambda: os.path.basename(directory))
        return directory if commit == os.path.basename(directory) else HubName(name.name, commit).snapshot()

    try:
        directory = once(store, f"{key}/{host()}", timeout_s, find)
    except TimeoutError as error:
        raise TimeoutError(f"{name}: its files were not found or downloaded within {timeout_s:g} s: {error}. Give a "
                           f"longer connect_timeout=, or fetch them ahead: {name.download()}") from error
    # Containers may have the name of a host in common, and no files.
    return directory if os.path.isdir(directory) else name.snapshot()


def _explained(name: HubName, error: Exception, hub: Any) -> Exception:
    """Returns the error to raise in place of one of huggingface_hub."""
    errors, endpoint = hub.utils, hub.constants.ENDPOINT
    cause = error.__cause__ if isinstance(error, errors.LocalEntryNotFoundError) else error
    status = getattr(getattr(cause, "response", None), "status_code", None)
    log_in = "log in with `hf auth login`, or set HF_TOKEN"
    if isinstance(error, errors.HFValidationError):
        return FileNotFoundError(f"{name}: there is no such directory here, and it is no name of a model on the hub: "
                                 f"{_line(error)}")
    if isinstance(error, errors.RevisionNotFoundError):
        return ValueError(f"{name}: the model on the hub has no such branch, tag or commit; leave revision= out for "
                          "main")
    if isinstance(error, errors.GatedRepoError):
        return PermissionError(f"{name}: the hub gives its files to those alone who have accepted its terms: accept "
                               f"them on the model's page, and {log_in}; or give a directory")
    if isinstance(error, errors.RepositoryNotFoundError):
        return FileNotFoundError(f"{name}: there is no such directory here, and the hub at {endpoint} has no model of "
                                 f"this name, or a private one ({status}): check the name, or give a directory; for a "
                                 f"private model {log_in}")
    if status in (401, 403):
        return PermissionError(f"{name}: the hub at {endpoint} refuses access ({status}): check the name, {log_in}, "
                               "with a token that may read this model; or give a directory")
    if isinstance(error, errors.LocalEntryNotFoundError):
        return _not_cached(name, cause, hub.constants)
    return OSError(f"{name}: its files could not be downloaded: {type(error).__name__}: {_line(error)}")


def _not_cached(name: HubName, cause: Optional[BaseException], constants: Any) -> Exception:
    cache = f"there is no such directory here, and the hub's cache {constants.HF_HUB_CACHE} lacks files of it"
    if constants.HF_HUB_OFFLINE:
        return FileNotFoundError(f"{name}: {cache}, which HF_HUB_OFFLINE forbids to download: run {name.download()} "
                                 "where there is a network, with the same HF_HOME, or give a directory")
    reason = "" if cause is None else f" ({type(cause).__name__}: {_line(cause)})"
    return ConnectionError(f"{name}: {cache}, which the hub at {constants.ENDPOINT} did not give{reason}: give a "
                           f"directory, or run {name.download()} where the hub can be reached, with the same HF_HOME")


def _line(error: BaseException) -> str:
    """Returns the first line of an error's message, without the full stop at its end."""
    return next(iter(str(error).strip().splitlines()), "").rstrip(". ")
