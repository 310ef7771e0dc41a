"""The configuration: the types of all its parts.

This file follows from the declarations of the router. This writes it again:
`VOLLEY_BLESS=1 cargo test --workspace --exclude scenarios --test reference`

All members are optional. The router checks values and combinations.
"""

from typing import Literal, TypedDict


SettingsIp4FullReassembly = TypedDict(
    "SettingsIp4FullReassembly",
    {
        # The maximum number of buffers of waiting fragments: at most a sixth of all buffers. Values: 1 to
        # 4294967295.
        "max-buffers": int,
        # The maximum number of waiting datagrams. Values: 1 to 65536.
        "max-reassemblies": int,
        # The maximum number of fragments of a datagram. Values: 1 to 256.
        "max-reassembly-length": int,
        # How long fragments wait for the others of their datagram. Values: 1 to 600 seconds.
        "timeout-seconds": int,
    },
    total=False,
)
"""Limits of reassembly (`show ip4-full-reassembly` and the like)."""


SettingsIp4Neighbors = TypedDict(
    "SettingsIp4Neighbors",
    {
        # The age at which a learned neighbor is verified again. Values: 1 to 4294967295 seconds.
        "age-seconds": int,
        # How often a new address of the router is announced on its link. Values: 0 to 10.
        "announcements": int,
        # The maximum number of neighbors in the table. Values: 0 to 4294967295.
        "limit": int,
    },
    total=False,
)
"""Limits of the neighbor table (`show ip neighbor-config`)."""


SettingsIp4SvReassembly = TypedDict(
    "SettingsIp4SvReassembly",
    {
        # The maximum number of buffers of waiting fragments: at most a sixth of all buffers. Values: 1 to
        # 4294967295.
        "max-buffers": int,
        # The maximum number of waiting datagrams. Values: 1 to 65536.
        "max-reassemblies": int,
        # The maximum number of fragments of a datagram. Values: 1 to 256.
        "max-reassembly-length": int,
        # How long fragments wait for the others of their datagram. Values: 1 to 600 seconds.
        "timeout-seconds": int,
    },
    total=False,
)
"""Limits of reassembly (`show ip4-full-reassembly` and the like)."""


SettingsIp6Dad = TypedDict(
    "SettingsIp6Dad",
    {
        # The number of probes before an address is used, one per second. With 0, it is used at once. Values:
        # 0 to 10. Default: 1.
        "transmits": int,
    },
    total=False,
)
"""Duplicate address detection of IPv6."""


SettingsIp6FullReassembly = TypedDict(
    "SettingsIp6FullReassembly",
    {
        # The maximum number of buffers of waiting fragments: at most a sixth of all buffers. Values: 1 to
        # 4294967295.
        "max-buffers": int,
        # The maximum number of waiting datagrams. Values: 1 to 65536.
        "max-reassemblies": int,
        # The maximum number of fragments of a datagram. Values: 1 to 256.
        "max-reassembly-length": int,
        # How long fragments wait for the others of their datagram. Values: 1 to 600 seconds.
        "timeout-seconds": int,
    },
    total=False,
)
"""Limits of reassembly (`show ip4-full-reassembly` and the like)."""


SettingsIp6Neighbors = TypedDict(
    "SettingsIp6Neighbors",
    {
        # The age at which a learned neighbor is verified again. Values: 1 to 4294967295 seconds.
        "age-seconds": int,
        # How often a new address of the router is announced on its link. Values: 0 to 10.
        "announcements": int,
        # The maximum number of neighbors in the table. Values: 0 to 4294967295.
        "limit": int,
    },
    total=False,
)
"""Limits of the neighbor table (`show ip neighbor-config`)."""


Settings = TypedDict(
    "Settings",
    {
        # Limits of reassembly (`show ip4-full-reassembly` and the like).
        "ip4-full-reassembly": SettingsIp4FullReassembly,
        # Limits of the neighbor table (`show ip neighbor-config`).
        "ip4-neighbors": SettingsIp4Neighbors,
        # Limits of reassembly (`show ip4-full-reassembly` and the like).
        "ip4-sv-reassembly": SettingsIp4SvReassembly,
        # Duplicate address detection of IPv6.
        "ip6-dad": SettingsIp6Dad,
        # Limits of reassembly (`show ip4-full-reassembly` and the like).
        "ip6-full-reassembly": SettingsIp6FullReassembly,
        # Limits of the neighbor table (`show ip neighbor-config`).
        "ip6-neighbors": SettingsIp6Neighbors,
        # The maximum rate of packets of one reason from each worker to the main thread (`show punt`).
        "punt-rates": dict[str, int],
        # Whether the router reports packets that it cannot deliver to their sources, by ICMP messages
        # "destination unreachable". Packets that are too big are always reported.
        "unreachables": dict[str, bool],
    },
    total=False,
)
"""The section `settings`."""


BridgeDomain = TypedDict(
    "BridgeDomain",
    {
        # Answer ARP requests and neighbor solicitations for the hosts in bridge-hosts, instead of flooding
        # them. Default: false.
        "arp-term": bool,
        # Send broadcast ARP that is not answered only to the port for unknown unicast (uu-fwd), if there is
        # one. With a BVI, it is flooded, and goes to that port, too. Default: false.
        "arp-ufwd": bool,
        # Send broadcast and multicast frames to all ports. Default: true.
        "flood": bool,
        # Send frames to known stations to their ports only. Without it, they are flooded like frames to
        # unknown stations. Default: true.
        "forward": bool,
        # Learn the source addresses of received frames. Default: true.
        "learn": bool,
        # Maximum number of learned addresses. Values: 0 to 4294967295. Default: 1048576.
        "learn-limit": int,
        # Time after which a learned address that is not heard any more is forgotten. 0: never. Values: 0 to
        # 255 minutes. Default: 0.
        "mac-age": int,
        # A name, for operators. Values: a text of at most 63 bytes. Default: "".
        "tag": str,
        # Send frames to unknown stations to all ports. Default: true.
        "uu-flood": bool,
    },
    total=False,
)
"""An entry of the section `bridge-domains`."""


BridgePort = TypedDict(
    "BridgePort",
    {
        # The number of the bridge domain. Values: 1 to 16777215.
        "bridge-domain": int,
        # Flood received frames. Default: true.
        "flood": bool,
        # Send received frames to known stations to their ports only. Without it, they are flooded. Default:
        # true.
        "forward": bool,
        # Learn the source addresses of frames that the port receives. Default: true.
        "learn": bool,
        # No frame goes from a port of a group to another port of the same group. 0: no group. Values: 0 to
        # 255. Default: 0.
        "split-horizon-group": int,
        # Send frames to unknown stations to this port, instead of flooding them. The port gets no flooded
        # frames. Default: false.
        "uu-fwd": bool,
    },
    total=False,
)
"""An entry of the section `bridge-ports`."""


Bvi = TypedDict(
    "Bvi",
    {
        # The number of the bridge domain. Values: 1 to 16777215.
        "bridge-domain": int,
        # No frame goes between the BVI and the ports of the same group. 0: no group. Values: 0 to 255.
        # Default: 0.
        "split-horizon-group": int,
    },
    total=False,
)
"""An entry of the section `bvis`."""


InterfaceAfPacket = TypedDict(
    "InterfaceAfPacket",
    {
        # Takes the Linux interface even if it carries the default route. Default: false.
        "force": bool,
        # The version of the kernel's receive ring: `v3` for throughput.
        "mode": Literal["v2", "v3"],
        # The kernel continues to use the interface, too. Default: false.
        "shared": bool,
    },
    total=False,
)
"""Options of `host-NAME` (a Linux interface)."""


InterfaceAfXdp = TypedDict(
    "InterfaceAfXdp",
    {
        # Takes the Linux interface even if it carries the default route. Default: false.
        "force": bool,
        # Where the XDP program runs: in the driver (`native`), or after it in the kernel (`generic`), which
        # works with every driver. By default, native where the driver supports it.
        "mode": Literal["native", "generic"],
        # The number of queues in each direction; all queues of the interface by default. Values: 1 to 1024.
        "queues": int,
        # The size of a receive ring. Values: 64 to 32768 packets, a power of two. Default: 1024.
        "rx-ring-size": int,
        # The size of a transmit ring. Values: 64 to 32768 packets, a power of two. Default: 1024.
        "tx-ring-size": int,
        # `true`: fail if the driver does not support zero copy; `false`: always copy. By default, copy only
        # if needed. Zero copy is implemented but untested, for lack of such a driver.
        "zero-copy": bool,
    },
    total=False,
)
"""Options of `xdp-NAME` (a Linux interface by AF_XDP)."""


InterfaceMemif = TypedDict(
    "InterfaceMemif",
    {
        # The size of a buffer; larger packets take several. A master uses the size of its slave. Values: 1 to
        # 4294967295 bytes. Default: 2048.
        "buffer-size": int,
        # The size of a ring. A master uses the size of its slave. Values: 1 to 65535 packets, a power of two.
        # Default: 1024.
        "ring-size": int,
        # A `master` listens, a `slave` connects.
        "role": Literal["master", "slave"],
        # Receive queues. Values: 1 to 65535. Default: 1.
        "rx-queues": int,
        # The secret that both peers must have; VPP as a client sends only 23 bytes of it. Users who may
        # change the configuration see it in this file, in `show config` and in the changes of an apply;
        # others see `<hidden>`. Values: up to 24 bytes.
        "secret": str,
        # The router trusts the peer. As `master`, it accepts memory that the slave can truncate: the next
        # access after that kills the router (SIGBUS). As `slave`, it shares all its buffers with the master,
        # and never copies. Default: false.
        "trusted": bool,
        # Transmit queues. Values: 1 to 65535. Default: 1.
        "tx-queues": int,
    },
    total=False,
)
"""Options of `memifSOCKET/ID` (shared memory)."""


InterfacePacketGenerator = TypedDict(
    "InterfacePacketGenerator",
    {
        # The first header of the packets on the link. With `ip4` and `ip6`, the link has one other station,
        # and there is neither ARP nor Neighbor Discovery.
        "mode": Literal["ethernet", "ip4", "ip6"],
    },
    total=False,
)
"""Options of `pg0, pg1, …` (a packet generator)."""


InterfacePcap = TypedDict(
    "InterfacePcap",
    {
        # Replays `rx` as fast as possible. Default: false.
        "full-speed": bool,
        # Number of times that `rx` is replayed; 1 by default. Values: 1 to 4294967295, or `forever`.
        "loop": int | str,
        # The maximum number of packets in `tx`; 100,000 by default. Values: 0 to 18446744073709551615
        # packets.
        "max": int,
        # The replay rate; by default, packets are replayed at the times in the file. Values: 1 to 4294967295
        # packets a second.
        "rate": int,
        # The file to replay, pcap or pcapng, of at most 64 MiB. Replay begins whenever the interface is
        # brought up. Values: an absolute path.
        "rx": str,
        # The file to record sent packets in. An existing capture file is replaced. Values: an absolute path.
        "tx": str,
    },
    total=False,
)
"""Options of `pcap0, pcap1, …` (a capture-file device)."""


InterfacePolicer = TypedDict(
    "InterfacePolicer",
    {
        # The policer of received packets. Values: a policer's name.
        "input": str,
        # The policer of sent packets. Values: a policer's name.
        "output": str,
    },
    total=False,
)
"""Limits the rate of packets, by policers of the section `policers`."""


InterfaceReceiveQueue = TypedDict(
    "InterfaceReceiveQueue",
    {
        # The polling mode of this queue; by default that of the interface.
        "mode": Literal["polling", "interrupt", "adaptive"],
        # The worker that polls the queue. If there is no such worker, another one polls it. Values: 0 to 255.
        "worker": int,
    },
    total=False,
)
"""Settings of single queues. Values: maps by a queue number."""


InterfaceReceive = TypedDict(
    "InterfaceReceive",
    {
        # Distributes flows over the workers. `auto` starts this when the interface's worker is overloaded.
        "handoff": Literal["auto", "on", "off"],
        # The polling mode of the queues.
        "mode": Literal["polling", "interrupt", "adaptive"],
        # Settings of single queues. Values: maps by a queue number.
        "queues": dict[str, InterfaceReceiveQueue],
    },
    total=False,
)
"""The polling of receive queues."""


InterfaceRouterAdvertisementPrefix = TypedDict(
    "InterfaceRouterAdvertisementPrefix",
    {
        # Advertises the prefix. Default: true.
        "advertise": bool,
        # Hosts form addresses with the prefix (SLAAC). Default: true.
        "autoconfig": bool,
        # The prefix is on the link. Default: true.
        "on-link": bool,
        # The preferred lifetime. Values: 0 to 4294967294 seconds, or `infinite`. Default: 604800.
        "preferred": int | str,
        # The valid lifetime. Values: 0 to 4294967294 seconds, or `infinite`. Default: 2592000.
        "valid": int | str,
    },
    total=False,
)
"""Prefixes to advertise, with settings. The interface's networks are advertised with defaults even if absent
here. Values: maps by an IPv6 prefix."""


InterfaceRouterAdvertisement = TypedDict(
    "InterfaceRouterAdvertisement",
    {
        # Recursive name servers (RFC 8106). Default: [].
        "dns": list[str],
        # The time between two advertisements. Values: `[ shortest, longest ]` in seconds, 3 to 1800. Default:
        # [200,600].
        "interval": list[int],
        # How long hosts may use the router as a default router; 0: not at all. Values: 0 to 65535 seconds.
        # Default: 1800.
        "lifetime": int,
        # Hosts get addresses by DHCPv6. Default: false.
        "managed": bool,
        # Hosts get other settings by DHCPv6. Default: false.
        "other": bool,
        # The default router preference (RFC 4191).
        "preference": Literal["low", "medium", "high"],
        # Prefixes to advertise, with settings. The interface's networks are advertised with defaults even if
        # absent here. Values: maps by an IPv6 prefix.
        "prefixes": dict[str, InterfaceRouterAdvertisementPrefix],
        # Sends no advertisements, but keeps these settings. Default: false.
        "suppress": bool,
    },
    total=False,
)
"""Sends router advertisements to hosts on the link. `{}` sends them with the default settings; without this
field, none are sent."""


InterfaceTcpMssClamp = TypedDict(
    "InterfaceTcpMssClamp",
    {
        # For IPv4: received packets (`rx`), sent packets (`tx`), or both.
        "direction": Literal["rx", "tx", "both"],
        # The largest MSS of TCP over IPv4. Values: 48 to 65495 bytes.
        "ip4": int,
        # The largest MSS of TCP over IPv6. Values: 48 to 65495 bytes.
        "ip6": int,
        # For IPv6: received packets (`rx`), sent packets (`tx`), or both.
        "ip6-direction": Literal["rx", "tx", "both"],
    },
    total=False,
)
"""Lowers the MSS option of TCP in packets on the interface."""


SubInterfaceEncapsulation = TypedDict(
    "SubInterfaceEncapsulation",
    {
        # Matches tagged packets that no other sub-interface takes. Default: false.
        "default": bool,
        # The VLAN of an 802.1ad outer tag (Ethernet type 88a8), instead of `dot1q`. Values: 1 to 4094, `any`.
        "dot1ad": int | str,
        # The VLAN of an 802.1Q outer tag (Ethernet type 8100). Values: 1 to 4094, `any`.
        "dot1q": int | str,
        # Always true: packets must have exactly the given number of tags.
        "exact-match": bool,
        # The VLAN of the inner tag. The outer VLAN must then be a number, not `any`. Values: 1 to 4094,
        # `any`.
        "inner-dot1q": int | str,
        # Matches packets without a tag. The device's own interface then no longer receives them. Default:
        # false.
        "untagged": bool,
    },
    total=False,
)
"""The tags."""


SubInterface = TypedDict(
    "SubInterface",
    {
        # The first address of each family is the primary one.
        "addresses": list[str],
        # A description (`show interface description`). Values: a line of at most 255 characters.
        "description": str,
        # The tags.
        "encapsulation": SubInterfaceEncapsulation,
        # The enabled features.
        "features": dict[str, list[str]],
        # The index (`sw_if_index`). Values: 0 to 65535.
        "index": int,
        # Reports better first hops on the interface's network to hosts, by ICMP redirects (RFC 1812 section
        # 5.2.7.2). IPv4 only. Default: false.
        "ip-redirects": bool,
        # Enables IPv6 without an IPv6 address in `addresses`. The link-local address is derived from the
        # Ethernet address, unless `addresses` has one. Default: false.
        "ip6": bool,
        # The Ethernet address; by default the device's own. Values: an Ethernet address.
        "mac": str,
        # The MTU; by default the device's own. Values: 68 to 65535 bytes.
        "mtu": int,
        # Static neighbors.
        "neighbors": dict[str, str],
        # Limits the rate of packets, by policers of the section `policers`.
        "policer": InterfacePolicer,
        # Answers ARP requests for hosts behind other interfaces; also Neighbor Discovery, if IPv6 is enabled.
        # Default: false.
        "proxy-arp": bool,
        # The polling of receive queues.
        "receive": InterfaceReceive,
        # Sends router advertisements to hosts on the link. `{}` sends them with the default settings; without
        # this field, none are sent.
        "router-advertisement": InterfaceRouterAdvertisement,
        # The administrative state. The default of a sub-interface is the state of its device.
        "state": Literal["up", "down"],
        # The VRF: 0, or one in `tables`. Values: 0 to 4294967295. Default: 0.
        "table": int,
        # Lowers the MSS option of TCP in packets on the interface.
        "tcp-mss-clamp": InterfaceTcpMssClamp,
        # Uses the addresses of this other interface in the same VRF, instead of `addresses`. Values: an
        # interface's name.
        "unnumbered": str,
        # Checks the source of received IPv4 packets (RFC 3704). `strict`: the route to the source leaves by
        # this interface; `loose`: by any interface. Routes of the interface's VRF count, also the default
        # route. Routes that drop packets, or report them as unreachable or prohibited, do not count. Default:
        # "off".
        "urpf": Literal["off", "strict", "loose"],
        # Checks the source of received IPv6 packets, as `urpf` does for IPv4. Default: "off".
        "urpf6": Literal["off", "strict", "loose"],
    },
    total=False,
)
"""VLAN interfaces, each with its `encapsulation`; by default the number is the VLAN."""


Interface = TypedDict(
    "Interface",
    {
        # The first address of each family is the primary one.
        "addresses": list[str],
        # Options of `host-NAME` (a Linux interface).
        "af-packet": InterfaceAfPacket,
        # Options of `xdp-NAME` (a Linux interface by AF_XDP).
        "af-xdp": InterfaceAfXdp,
        # A description (`show interface description`). Values: a line of at most 255 characters.
        "description": str,
        # Optional for `host-NAME` and `xdp-NAME`; it must match the name.
        "device-type": Literal["af-packet", "af-xdp"],
        # The enabled features.
        "features": dict[str, list[str]],
        # The index (`sw_if_index`). Values: 0 to 65535.
        "index": int,
        # Reports better first hops on the interface's network to hosts, by ICMP redirects (RFC 1812 section
        # 5.2.7.2). IPv4 only. Default: false.
        "ip-redirects": bool,
        # Enables IPv6 without an IPv6 address in `addresses`. The link-local address is derived from the
        # Ethernet address, unless `addresses` has one. Default: false.
        "ip6": bool,
        # The Ethernet address; by default the device's own. Values: an Ethernet address.
        "mac": str,
        # Options of `memifSOCKET/ID` (shared memory).
        "memif": InterfaceMemif,
        # The MTU; by default the device's own. Values: 68 to 65535 bytes.
        "mtu": int,
        # Static neighbors.
        "neighbors": dict[str, str],
        # Options of `pg0, pg1, …` (a packet generator).
        "packet-generator": InterfacePacketGenerator,
        # Options of `pcap0, pcap1, …` (a capture-file device).
        "pcap": InterfacePcap,
        # Limits the rate of packets, by policers of the section `policers`.
        "policer": InterfacePolicer,
        # Answers ARP requests for hosts behind other interfaces; also Neighbor Discovery, if IPv6 is enabled.
        # Default: false.
        "proxy-arp": bool,
        # The polling of receive queues.
        "receive": InterfaceReceive,
        # Sends router advertisements to hosts on the link. `{}` sends them with the default settings; without
        # this field, none are sent.
        "router-advertisement": InterfaceRouterAdvertisement,
        # The administrative state. The default of a sub-interface is the state of its device.
        "state": Literal["up", "down"],
        # VLAN interfaces, each with its `encapsulation`; by default the number is the VLAN.
        "sub-interfaces": dict[str, SubInterface],
        # The VRF: 0, or one in `tables`. Values: 0 to 4294967295. Default: 0.
        "table": int,
        # Lowers the MSS option of TCP in packets on the interface.
        "tcp-mss-clamp": InterfaceTcpMssClamp,
        # Uses the addresses of this other interface in the same VRF, instead of `addresses`. Values: an
        # interface's name.
        "unnumbered": str,
        # Checks the source of received IPv4 packets (RFC 3704). `strict`: the route to the source leaves by
        # this interface; `loose`: by any interface. Routes of the interface's VRF count, also the default
        # route. Routes that drop packets, or report them as unreachable or prohibited, do not count. Default:
        # "off".
        "urpf": Literal["off", "strict", "loose"],
        # Checks the source of received IPv6 packets, as `urpf` does for IPv4. Default: "off".
        "urpf6": Literal["off", "strict", "loose"],
    },
    total=False,
)
"""An entry of the section `interfaces`."""


Loopback = TypedDict(
    "Loopback",
    {
        # The first address of each family is the primary one.
        "addresses": list[str],
        # A description (`show interface description`). Values: a line of at most 255 characters.
        "description": str,
        # The enabled features.
        "features": dict[str, list[str]],
        # The index (`sw_if_index`). Values: 0 to 65535.
        "index": int,
        # Reports better first hops on the interface's network to hosts, by ICMP redirects (RFC 1812 section
        # 5.2.7.2). IPv4 only. Default: false.
        "ip-redirects": bool,
        # Enables IPv6 without an IPv6 address in `addresses`. The link-local address is derived from the
        # Ethernet address, unless `addresses` has one. Default: false.
        "ip6": bool,
        # The Ethernet address; by default the device's own. Values: an Ethernet address.
        "mac": str,
        # The MTU; by default the device's own. Values: 68 to 65535 bytes.
        "mtu": int,
        # Static neighbors.
        "neighbors": dict[str, str],
        # Limits the rate of packets, by policers of the section `policers`.
        "policer": InterfacePolicer,
        # Answers ARP requests for hosts behind other interfaces; also Neighbor Discovery, if IPv6 is enabled.
        # Default: false.
        "proxy-arp": bool,
        # The polling of receive queues.
        "receive": InterfaceReceive,
        # Sends router advertisements to hosts on the link. `{}` sends them with the default settings; without
        # this field, none are sent.
        "router-advertisement": InterfaceRouterAdvertisement,
        # The administrative state. The default of a sub-interface is the state of its device.
        "state": Literal["up", "down"],
        # The VRF: 0, or one in `tables`. Values: 0 to 4294967295. Default: 0.
        "table": int,
        # Lowers the MSS option of TCP in packets on the interface.
        "tcp-mss-clamp": InterfaceTcpMssClamp,
        # Uses the addresses of this other interface in the same VRF, instead of `addresses`. Values: an
        # interface's name.
        "unnumbered": str,
        # Checks the source of received IPv4 packets (RFC 3704). `strict`: the route to the source leaves by
        # this interface; `loose`: by any interface. Routes of the interface's VRF count, also the default
        # route. Routes that drop packets, or report them as unreachable or prohibited, do not count. Default:
        # "off".
        "urpf": Literal["off", "strict", "loose"],
        # Checks the source of received IPv6 packets, as `urpf` does for IPv4. Default: "off".
        "urpf6": Literal["off", "strict", "loose"],
    },
    total=False,
)
"""An entry of the section `loopbacks`."""


Policer = TypedDict(
    "Policer",
    {
        # The committed burst. A packet larger than the burst never conforms. Values: 0 to 1099511627776.
        # Default: 0.
        "cb": int,
        # The committed rate. Values: 0 to 1000000000. Default: 0.
        "cir": int,
        # The policer takes a packet's color on arrival from its DSCP (assured forwarding): AFx3 is red, AFx2
        # yellow, all others green. It never improves this color. With `1r2c`, the violate action applies to
        # packets that arrive yellow or red. Default: false.
        "color-aware": bool,
        # The action for green packets. Values: `transmit`, `drop`, or `mark-and-transmit` with a DSCP:
        # `"mark-and-transmit AF12"`, or a number.
        "conform-action": str,
        # The excess burst, for types with three colors. Values: 0 to 1099511627776. Default: 0.
        "eb": int,
        # The excess rate, for types with two rates. Values: 0 to 1000000000. Default: 0.
        "eir": int,
        # The action for yellow packets. Values: `transmit`, `drop`, or `mark-and-transmit` with a DSCP:
        # `"mark-and-transmit AF12"`, or a number.
        "exceed-action": str,
        # `kbps`: rates in kbit/s of 1,000 bits, 8 to 400,000,000, bursts in bytes. `pps`: rates in packets a
        # second, 1 to 1,000,000,000, bursts in packets.
        "rate": Literal["kbps", "pps"],
        # Accepted, but without effect: rates are exact.
        "round": Literal["closest", "up", "down"],
        # The type: one rate with two or three colors (RFC 2697), or two rates with three colors, by RFC 2698
        # (where `eir` and `eb` are the peak rate and burst) or by RFC 4115. Default: "1r2c".
        "type": Literal["1r2c", "1r3c", "2r3c-2698", "2r3c-4115"],
        # The action for red packets. Values: `transmit`, `drop`, or `mark-and-transmit` with a DSCP:
        # `"mark-and-transmit AF12"`, or a number.
        "violate-action": str,
    },
    total=False,
)
"""An entry of the section `policers`."""


RoutePath = TypedDict(
    "RoutePath",
    {
        # The interface of the next hop; required if the next hop is link-local. Without `via`, the
        # destinations are directly on this interface's link. Values: an interface's name.
        "interface": str,
        # The VRF in which to look up the destination. Values: 0 to 4294967295.
        "lookup-in-table": int,
        # The next hop, the router itself (`local`), or a way to drop packets. Values: an IP address, `local`,
        # `drop`, `unreachable`, `prohibit`.
        "via": str,
        # The share of flows, relative to the other paths. Values: 1 to 255. Default: 1.
        "weight": int,
    },
    total=False,
)
"""Up to 64 paths that share the flows, each with the fields of a path. A route with a single path has these
fields itself."""


Route = TypedDict(
    "Route",
    {
        # The interface of the next hop; required if the next hop is link-local. Without `via`, the
        # destinations are directly on this interface's link. Values: an interface's name.
        "interface": str,
        # The VRF in which to look up the destination. Values: 0 to 4294967295.
        "lookup-in-table": int,
        # Up to 64 paths that share the flows, each with the fields of a path. A route with a single path has
        # these fields itself.
        "paths": list[RoutePath],
        # The destinations. Values: a prefix.
        "prefix": str,
        # The VRF: 0, or one in `tables`. Values: 0 to 4294967295. Default: 0.
        "table": int,
        # The next hop, the router itself (`local`), or a way to drop packets. Values: an IP address, `local`,
        # `drop`, `unreachable`, `prohibit`.
        "via": str,
        # The share of flows, relative to the other paths. Values: 1 to 255. Default: 1.
        "weight": int,
    },
    total=False,
)
"""An entry of the section `routes`."""


Table = TypedDict(
    "Table",
    {
        # The name, for commands in place of the number. Values: a letter, then letters, digits, `-`, `_`,
        # `.`.
        "name": str,
    },
    total=False,
)
"""An entry of the section `tables`."""


TapHost = TypedDict(
    "TapHost",
    {
        # Its address. Values: an IPv4 address with prefix length.
        "address": str,
        # Its Ethernet address. Values: an Ethernet address.
        "mac": str,
        # The MTU of both ends. Values: 68 to 65535 bytes.
        "mtu": int,
        # The Linux interface. Values: a name of at most 15 bytes.
        "name": str,
        # Its network namespace. Values: a name, or a path.
        "namespace": str,
    },
    total=False,
)
"""The end in the host."""


Tap = TypedDict(
    "Tap",
    {
        # A description; `interfaces` may have it, too. Values: a line of at most 255 characters.
        "description": str,
        # Packets of TCP that are larger than the MTU pass between the host and the router whole (GSO).
        # Default: true.
        "gso": bool,
        # The end in the host.
        "host": TapHost,
        # Accepted, but without effect: a tap has no rings. Values: 8 to 32768 packets, a power of two.
        "rx-ring-size": int,
        # Accepted, but without effect: a tap has no rings. Values: 8 to 32768 packets, a power of two.
        "tx-ring-size": int,
    },
    total=False,
)
"""An entry of the section `taps`."""


Config = TypedDict(
    "Config",
    {
        # The section `bridge-domains`.
        "bridge-domains": dict[str, BridgeDomain],
        # The section `bridge-hosts`.
        "bridge-hosts": dict[str, str],
        # The section `bridge-ports`.
        "bridge-ports": dict[str, BridgePort],
        # The section `bvis`.
        "bvis": dict[str, Bvi],
        # The section `cross-connects`.
        "cross-connects": dict[str, str],
        # The section `interfaces`.
        "interfaces": dict[str, Interface],
        # The section `l2-patches`.
        "l2-patches": dict[str, str],
        # The section `l2fib`.
        "l2fib": dict[str, str],
        # The section `loopbacks`.
        "loopbacks": dict[str, Loopback],
        # The section `memif-sockets`.
        "memif-sockets": dict[str, str],
        # The section `policers`.
        "policers": dict[str, Policer],
        # The section `routes`.
        "routes": list[Route],
        # The section `settings`.
        "settings": Settings,
        # The section `tables`.
        "tables": list[int] | dict[str, Table],
        # The section `tag-rewrites`.
        "tag-rewrites": dict[str, str],
        # The section `taps`.
        "taps": dict[str, Tap],
    },
    total=False,
)
"""The configuration: one document."""
