"""A client of Volley's native API.

    import volley

    router = volley.Client()
    config, generation = router.config()
    config["interfaces"]["host-eth1"]["mtu"] = 9000
    change = router.replace(config, generation=generation, confirm_within=60)
    print("\\n".join(change.difference))
    router.confirm(change)

`volley.document` has the types of all parts of the configuration.
"""

from .answers import About, Change, CommandResult, Complete, Event, Generation, InterfaceState, Removed, Snapshot
from .client import Client
from .document import Config
from .errors import CommandFailed, Conflict, Disconnected, Fault, Refused, Unreachable, VolleyError

__all__ = [
    "About",
    "Change",
    "Client",
    "CommandFailed",
    "CommandResult",
    "Complete",
    "Config",
    "Conflict",
    "Disconnected",
    "Event",
    "Fault",
    "Generation",
    "InterfaceState",
    "Refused",
    "Removed",
    "Snapshot",
    "Unreachable",
    "VolleyError",
]
