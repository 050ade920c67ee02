"""Four scenes in Spanish, for the stubs and for the stand-ins of the real services."""

from __future__ import annotations

from typing import Final, NamedTuple


class Scene(NamedTuple):
    """A scene of the story, what can be decided after it, and all of that in English."""

    text: str
    english: str
    choices: tuple[str, str]


SCENES: Final = (
    Scene(
        "Lena llega a la estación por la noche. El último tren ya no está. En el banco hay una carta con su nombre.",
        "Lena arrives at the station at night. The last train has gone. On the bench lies a letter with her name.",
        ("Abrir la carta", "Buscar al jefe de estación"),
    ),
    Scene(
        "La carta huele a mar. Dentro hay una llave pequeña y un mapa del puerto viejo.",
        "The letter smells of the sea. Inside are a small key and a map of the old harbour.",
        ("Caminar hasta el puerto", "Esperar hasta la mañana"),
    ),
    Scene(
        "En el puerto, una luz verde se mueve sobre el agua. Una voz canta una canción que Lena conoce.",
        "In the harbour a green light moves over the water. A voice sings a song that Lena knows.",
        ("Cantar con la voz", "Apagar la linterna"),
    ),
    Scene(
        "La llave abre la puerta del faro. Arriba la espera su abuela, que sonríe: «Has tardado mucho».",
        "The key opens the door of the lighthouse. Upstairs waits her grandmother and smiles: 'You took your time.'",
        ("Abrazar a la abuela", "Preguntar por la carta"),
    ),
)


def scene(number: int) -> Scene:
    """The scene of an entry; after the last one the story begins anew."""
    return SCENES[(number - 1) % len(SCENES)]


def in_english(text: str) -> str:
    """The translation of a scene; of any other text, the text in brackets."""
    return next((each.english for each in SCENES if each.text == text), f"[{text}]")
