#!/usr/bin/env python3
"""Talks to the router's binary API by VPP's own client for Python, unchanged.

Usage: papi.py SOCKET TASK [ARGUMENT]. Prints "done" at the end; an assertion that fails ends it with an error.
"""

import ipaddress
import os
import struct
import sys
import threading
import time

from vpp_papi import VPPApiClient, VPPIOError
from vpp_papi.vpp_stats import VPPStats

UP = 1  # IF_STATUS_API_FLAG_ADMIN_UP


def statistics(vpp, socket):
    """Reads the statistics segment while interfaces come and go."""
    api, stats = vpp.api, VPPStats(socketname=socket)
    stats.connect()
    assert list(stats.directory)[:3] == ["/sys/heartbeat", "/sys/last_stats_clear", "/sys/boottime"]
    assert abs(stats["/sys/boottime"] - time.time()) < 60
    for count in range(1, 30):
        made = [api.create_loopback().sw_if_index for _ in range(count % 4)]
        # An answer about an interface comes after the segment has it.
        names = [i.interface_name for i in api.sw_interface_dump()]
        assert sorted(stats["/if/names"]) == sorted(names), (stats["/if/names"], names)
        for number in made:
            assert stats[f"/interfaces/loop{number - 1}/rx"][0] == (0, 0) if f"loop{number - 1}" in names else True
            api.delete_loopback(sw_if_index=number)
    assert stats["/if/names"] == [i.interface_name for i in api.sw_interface_dump()]
    port = interfaces(api)["pg7"].sw_if_index
    api.cli_inband(cmd="packet-generator enable-stream")
    while "Yes" in api.cli_inband(cmd="show packet-generator").reply:
        time.sleep(0.01)
    # Fresh, without waiting for the next update.
    assert stats["/if/rx"][:, port].sum_packets() == 5 and stats["/interfaces/pg7/rx"][0]["bytes"] == 5 * 64
    assert stats["/err/ip4-input/too-short"] == [0]
    assert sum(stats.set_errors().values()) >= 5, stats.set_errors()
    calls = dict(zip(stats["/sys/node/names"], stats["/sys/node/vectors"][0]))
    assert calls["pg-input"] == 5, calls
    beat = stats["/sys/heartbeat"]
    time.sleep(2.5)
    assert stats["/sys/heartbeat"] >= beat + 2
    for _ in range(200):
        other = VPPStats(socketname=socket)
        other.connect()
        other.disconnect()
    stats.disconnect()


def workers(vpp, socket):
    """Reads the counters of each thread while workers leave and come back."""
    api, stats = vpp.api, VPPStats(socketname=socket)
    stats.connect()
    port = interfaces(api)["pg7"].sw_if_index

    def command(line):
        answer = api.cli_inband(cmd=line)
        assert answer.retval == 0, answer.reply

    def send(worker, count):
        file = os.path.join(os.path.dirname(socket), "in.pcap")
        if not os.path.exists(file):
            frame = bytes.fromhex("02fe00000007" "020000000001" "0800") + bytes(46)
            with open(file, "wb") as to:
                to.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
                to.write(struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame)
        command(f"packet-generator new pcap {file} source pg7 name s limit {count} worker {worker}")
        command("packet-generator enable-stream s")
        while "Yes" in api.cli_inband(cmd="show packet-generator").reply:
            time.sleep(0.01)
        command("packet-generator delete s")

    def received():
        """Returns the packets of each thread by the interface, and by the input node."""
        node = list(stats["/sys/node/names"]).index("pg-input")
        rows = [row[port]["packets"] for row in stats["/if/rx"]]
        return rows, [row[node] for row in stats["/sys/node/vectors"]]

    send(0, 5)
    send(1, 7)
    # Without workers in startup.conf, the first worker counts as the main thread.
    assert received() == ([5, 7], [5, 7]), received()
    assert stats["/sys/num_worker_threads"] == 1
    command("set workers 1")
    send(0, 3)
    assert received() == ([8, 7], [8, 7]), received()
    assert stats["/sys/num_worker_threads"] == 0
    drops = stats["/if/drops"][:, port].sum()
    assert drops == 15, drops
    command("set workers 3")
    command("set interface rx-placement pg7 queue 1 worker 1")
    send(1, 4)
    assert received() == ([8, 11, 0], [8, 11, 0]), received()
    stats.disconnect()


def client(socket):
    """Returns a client that knows the messages from the router itself."""
    return VPPApiClient(bootstrapapi=True, server_address=socket)


def interfaces(api):
    """Returns the interfaces by name."""
    return {i.interface_name: i for i in api.sw_interface_dump()}


def configure(vpp):
    """Configures interfaces, and checks the answers."""
    api = vpp.api
    assert api.show_version().program == "volley"
    assert api.control_ping().vpe_pid > 0
    assert api.get_f64_increment_by_one(f64_value=42.0).f64_value == 43.0
    assert api.get_f64_endian_value().retval == 0
    assert abs(api.show_vpe_system_time(_no_type_conversion=True).vpe_system_time - time.time()) < 5
    assert [t.name for t in api.show_threads().thread_data] == ["vpp_main", "vpp_wk_0"]
    before = interfaces(api)
    assert before["local0"].sw_if_index == 0 and before["local0"].interface_dev_type == "local"
    port = before["host-eth0"]
    assert port.interface_dev_type == "af-packet" and port.mtu[0] == 1500, port
    loop = api.create_loopback(mac_address="02:00:00:00:00:07").sw_if_index
    assert api.sw_interface_set_flags(sw_if_index=loop, flags=UP).retval == 0
    address = {"sw_if_index": loop, "is_add": True, "prefix": "10.77.0.1/24"}
    assert api.sw_interface_add_del_address(**address).retval == 0
    assert api.sw_interface_add_del_address(**{**address, "is_add": False, "prefix": "10.9.9.9/24"}).retval == -60
    assert api.sw_interface_set_mtu(sw_if_index=loop, mtu=[1400, 0, 0, 0]).retval == 0
    assert api.sw_interface_tag_add_del(is_add=True, sw_if_index=loop, tag="core").retval == 0
    made = interfaces(api)["loop0"]
    assert made.sw_if_index == loop and made.flags == 3 and made.mtu[0] == 1400 and made.tag == "core", made
    assert str(made.l2_address) == "02:00:00:00:00:07" and made.interface_dev_type == "Loopback"
    sub = api.create_vlan_subif(sw_if_index=port.sw_if_index, vlan_id=20)
    assert sub.retval == 0
    assert api.create_vlan_subif(sw_if_index=port.sw_if_index, vlan_id=20).retval == -68
    tagged = interfaces(api)["host-eth0.20"]
    assert (tagged.sup_sw_if_index, tagged.sub_id, tagged.sub_outer_vlan_id) == (port.sw_if_index, 20, 20), tagged
    assert tagged.interface_dev_type == port.interface_dev_type
    assert [i.interface_name for i in api.sw_interface_dump(name_filter_valid=True, name_filter="ETH0.")] == ["host-eth0.20"]
    assert [i.interface_name for i in api.sw_interface_dump(sw_if_index=loop)] == ["loop0"]
    assert api.sw_interface_dump(sw_if_index=4711) == []
    for wrong in (0, 4711, 0xFFFFFFFF):
        assert api.sw_interface_set_flags(sw_if_index=wrong, flags=UP).retval == -2
    assert api.sw_interface_set_table(sw_if_index=loop, is_ipv6=False, vrf_id=9).retval == -3
    assert api.cli_inband(cmd="create loopback interface").reply == "loop1\n"
    assert api.cli_inband(cmd="no such command").retval == -1
    assert not hasattr(api, "acl_dump"), "a message without its feature is not in the table"


def devices(vpp):
    """One life of a tap, of a Linux interface and of a memif interface: made, shown, used, removed."""
    api = vpp.api
    there = set(interfaces(api))
    # A tap.
    made = api.tap_create_v3(
        id=7, host_if_name_set=True, host_if_name="host7", host_mtu_set=True, host_mtu_size=1400, tag="to the host",
        host_ip4_prefix_set=True, host_ip4_prefix="10.7.0.2/24", tap_flags=1, use_random_mac=False,
        mac_address="02:00:00:00:07:01", host_mac_addr_set=True, host_mac_addr="02:00:00:00:07:02",
    )
    assert made.retval == 0, made
    tap = made.sw_if_index
    assert api.tap_create_v3(id=7).retval == -71, "the number is taken"
    assert api.tap_create_v3(host_bridge_set=True, host_bridge="br0").retval == -126
    api.sw_interface_set_flags(sw_if_index=tap, flags=UP)
    api.sw_interface_add_del_address(sw_if_index=tap, is_add=True, prefix="10.7.0.1/24")
    assert os.system("ping -c 1 -W 5 10.7.0.1 >/dev/null") == 0, "the host reaches the router"
    assert os.system("ip link show host7 | grep -q 'mtu 1400'") == 0
    shown = interfaces(api)["tap7"]
    assert (shown.interface_dev_type, shown.tag, shown.mtu[0]) == ("virtio", "to the host", 1400), shown
    assert str(shown.l2_address) == "02:00:00:00:07:01"
    (details,) = api.sw_interface_tap_v2_dump(sw_if_index=tap)
    assert [d.sw_if_index for d in api.sw_interface_tap_v2_dump()] == [tap]
    assert api.sw_interface_tap_v2_dump(sw_if_index=4711) == []
    assert (details.id, details.host_if_name, details.dev_name) == (7, "host7", "tap7"), details
    assert (details.host_mtu_size, details.tap_flags, details.rx_ring_sz) == (1400, 1, 256), details
    assert str(details.host_mac_addr) == "02:00:00:00:07:02" and str(details.host_ip4_prefix) == "10.7.0.2/24", details
    second = api.tap_create_v2(host_if_name_set=True, host_if_name="host0")
    assert second.retval == 0, second
    (details,) = api.sw_interface_tap_v2_dump(sw_if_index=second.sw_if_index)
    with open("/sys/class/net/host0/address", encoding="ascii") as file:
        assert str(details.host_mac_addr) == file.read().strip(), "the address that the kernel chose"
    assert (details.dev_name, details.tap_flags) == ("tap0", 0)
    for number in (tap, second.sw_if_index):
        assert api.tap_delete_v2(sw_if_index=number).retval == 0
        assert api.tap_delete_v2(sw_if_index=number).retval == -2
    assert os.system("ip link show host7 2>/dev/null") != 0
    # A Linux interface.
    ethernet = {"mode": 1, "host_if_name": "eth0", "use_random_hw_addr": True}
    made = api.af_packet_create_v3(**ethernet)
    assert made.retval == 0, made
    assert api.af_packet_create_v3(**ethernet).retval == -79
    assert api.af_packet_create_v3(**{**ethernet, "host_if_name": "eth9"}).retval == -71
    assert api.af_packet_create_v3(**{**ethernet, "mode": 2}).retval == -126
    api.sw_interface_set_flags(sw_if_index=made.sw_if_index, flags=UP)
    api.sw_interface_add_del_address(sw_if_index=made.sw_if_index, is_add=True, prefix="10.8.0.1/24")
    assert [(d.sw_if_index, d.host_if_name) for d in api.af_packet_dump()] == [(made.sw_if_index, "eth0")]
    assert api.tap_delete_v2(sw_if_index=made.sw_if_index).retval == -2, "no tap"
    assert api.af_packet_delete(host_if_name="eth0").retval == 0
    assert api.af_packet_delete(host_if_name="eth0").retval == -71
    assert api.af_packet_create(host_if_name="eth0", hw_addr="02:00:00:00:08:01").retval == 0
    assert str(interfaces(api)["host-eth0"].l2_address) == "02:00:00:00:08:01"
    assert api.af_packet_delete(host_if_name="eth0").retval == 0
    # Interfaces on two memif sockets, without other programs.
    add = lambda **how: api.memif_socket_filename_add_del_v2(is_add=True, **how)
    made = add(socket_filename="deep/papi.sock")
    assert (made.retval, made.socket_id) == (0, 1), made
    assert add(socket_id=2, socket_filename="other.sock").retval == 0
    assert add(socket_id=2, socket_filename="other.sock").retval == 0, "the same again"
    assert add(socket_id=2, socket_filename="deep/papi.sock").retval == -116
    ends = [api.memif_create_v2(role=role, id=4, socket_id=role + 1, ring_size=256, secret="mum") for role in (0, 1)]
    assert [end.retval for end in ends] == [0, 0], ends
    assert api.memif_create_v2(role=0, id=4, socket_id=1).retval == -68
    assert api.memif_create_v2(role=0, id=5, socket_id=9).retval == -73
    assert api.memif_create(role=0, mode=1, id=5, socket_id=1).retval == -126
    for end in ends:
        api.sw_interface_set_flags(sw_if_index=end.sw_if_index, flags=UP)
    shown = {d.if_name: d for d in api.memif_dump()}
    assert sorted(shown) == ["memif1/4", "memif2/4"] and all(d.flags == 1 for d in shown.values()), shown
    assert (shown["memif1/4"].role, shown["memif2/4"].role, shown["memif2/4"].ring_size) == (0, 1, 256)
    assert interfaces(api)["memif1/4"].interface_dev_type == "memif"
    files = {d.socket_id: d.socket_filename for d in api.memif_socket_filename_dump()}
    assert sorted(files) == [0, 1, 2] and files[1].endswith("/deep/papi.sock"), files
    assert os.path.exists(files[1]), "the master listens, in a folder that it made"
    assert api.memif_socket_filename_add_del(is_add=False, socket_id=1).retval == -74, "in use"
    for end in ends:
        assert api.memif_delete(sw_if_index=end.sw_if_index).retval == 0
    for number in (1, 2):
        assert api.memif_socket_filename_add_del(is_add=False, socket_id=number).retval == 0
    assert set(interfaces(api)) == there


def path(next_hop="0.0.0.0", sw_if_index=0xFFFFFFFF, **more):
    """Returns a path of a route."""
    address = ipaddress.ip_address(next_hop)
    family = "ip4" if address.version == 4 else "ip6"
    usual = {"table_id": 0, "rpf_id": 0xFFFFFFFF, "weight": 1, "preference": 0, "type": 0, "flags": 0, "n_labels": 0}
    nh = {"address": {family: address.packed}, "via_label": 0, "obj_id": 0, "classify_table_index": 0}
    labels = [{"is_uniform": 0, "label": 0, "ttl": 0, "exp": 0}] * 16
    proto = 0 if address.version == 4 else 1
    return {**usual, "sw_if_index": sw_if_index, "proto": proto, "nh": nh, "label_stack": labels, **more}


def routes(vpp):
    """Adds VRFs, addresses and routes, and reads them."""
    api = vpp.api
    change = lambda prefix, paths, table=0, **how: api.ip_route_add_del(
        **{"is_add": True, "is_multipath": False, **how},
        route={"table_id": table, "prefix": prefix, "n_paths": len(paths), "paths": paths},
    )
    dumped = lambda table=0, is_ip6=False: {
        str(r.route.prefix): r.route.paths for r in api.ip_route_dump(table={"table_id": table, "is_ip6": is_ip6})
    }
    port = interfaces(api)["host-eth0"].sw_if_index
    api.sw_interface_set_flags(sw_if_index=port, flags=UP)
    for prefix in ("10.0.0.1/24", "fd00::1/64"):
        assert api.sw_interface_add_del_address(sw_if_index=port, is_add=True, prefix=prefix).retval == 0
    assert [str(a.prefix) for a in api.ip_address_dump(sw_if_index=port, is_ipv6=False)] == ["10.0.0.1/24"]
    assert [d.sw_if_index for d in api.ip_dump(is_ipv6=True)] == [port]
    link_local = ipaddress.ip_address(str(api.sw_interface_ip6_get_link_local_address(sw_if_index=port).ip))
    assert link_local.is_link_local, link_local
    assert change("192.0.2.0/24", [path("10.0.0.2", port)]).retval == 0
    assert change("192.0.2.0/24", [path("10.0.0.3", port)], is_multipath=True).retval == 0
    assert change("2001:db8::/32", [path("fd00::2", port)]).retval == 0
    assert change("198.51.100.0/24", [path(type=2)]).retval == 0
    there = dumped()
    assert [str(p.nh.address.ip4) for p in there["192.0.2.0/24"]] == ["10.0.0.2", "10.0.0.3"], there["192.0.2.0/24"]
    assert there["198.51.100.0/24"][0].type == 2 and there["10.0.0.1/32"][0].type == 1, there
    assert [str(p.nh.address.ip6) for p in dumped(is_ip6=True)["2001:db8::/32"]] == ["fd00::2"]
    found = api.ip_route_lookup(table_id=0, exact=0, prefix="192.0.2.77/32")
    assert (found.retval, str(found.route.prefix)) == (0, "192.0.2.0/24"), found
    assert api.ip_route_lookup(table_id=0, exact=1, prefix="192.0.2.77/32").retval == -6
    assert change("192.0.2.0/24", [path("10.0.0.2", port)], is_add=False, is_multipath=True).retval == 0
    assert [str(p.nh.address.ip4) for p in dumped()["192.0.2.0/24"]] == ["10.0.0.3"]
    assert change("192.0.2.0/24", [], is_add=False).retval == 0
    assert "192.0.2.0/24" not in dumped()
    assert change("192.0.2.0/24", []).retval == -7, "a route needs a path"
    assert change("192.0.2.0/24", [path("10.0.0.2", 4711)]).retval == -2
    assert change("192.0.2.0/24", [path(type=2)], table=7).retval == -3
    assert change("192.0.2.0/24", [path("10.0.0.2", port, preference=1)]).retval == -126
    assert change("192.0.2.0/24", [path("10.0.0.2", table_id=7)]).retval == -126
    assert api.ip_table_add_del(is_add=True, table={"table_id": 7, "is_ip6": False, "name": "blue"}).retval == 0
    assert change("192.0.2.0/24", [path(type=2)], table=7).retval == 0
    assert "blue" in [t.table.name for t in api.ip_table_dump()]
    assert api.ip_table_flush(table={"table_id": 7, "is_ip6": False, "name": ""}).retval == 0
    assert "192.0.2.0/24" not in dumped(7)
    assert api.ip_table_add_del(is_add=False, table={"table_id": 7, "is_ip6": False, "name": ""}).retval == 0
    assert api.ip_table_allocate(table={"table_id": 0xFFFFFFFF, "is_ip6": False, "name": ""}).table.table_id == 1


def events(vpp):
    """Registers for events of interfaces, and checks those of a change."""
    got = []
    vpp.register_event_callback(lambda _, event: got.append((event.sw_if_index, int(event.flags), event.deleted, event.pid)))
    assert vpp.api.want_interface_events(enable_disable=1, pid=4242).retval == 0
    assert vpp.api.want_interface_events(enable_disable=1, pid=4242).retval == -31
    loop = vpp.api.create_loopback().sw_if_index
    vpp.api.sw_interface_set_flags(sw_if_index=loop, flags=UP)
    time.sleep(0.3)
    vpp.api.delete_loopback(sw_if_index=loop)
    time.sleep(0.3)
    # The first two changes may be one event; the link of a loopback is always up. Nothing is told twice.
    up, gone = (loop, 3, False, 4242), (loop, 0, True, 4242)
    assert got in ([up, gone], [(loop, 2, False, 4242), up, gone]), got
    assert vpp.api.want_interface_events(enable_disable=0, pid=4242).retval == 0
    assert vpp.api.want_interface_events(enable_disable=0, pid=4242).retval == -31


def reconnect(vpp, times):
    """Connects again and again. Neither side keeps a descriptor."""
    vpp.disconnect()
    open_files = lambda: len(os.listdir("/proc/self/fd"))
    before = open_files()
    for _ in range(int(times)):
        vpp.connect("again")
        assert vpp.api.show_version().retval == 0
        vpp.disconnect()
    assert open_files() <= before
    vpp.connect("again")


def many(vpp, socket):
    """Flushes many routes: a client that leaves takes its flush back, others are served meanwhile, and it can be rolled back."""
    api, table = vpp.api, {"table_id": 7, "is_ip6": False, "name": ""}

    def run(line):
        answer = api.cli_inband(cmd=line)
        assert answer.retval == 0, answer.reply

    run("ip table add 7")
    run("ip route add count 50000 20.0.0.0/24 table 7 drop")
    there = lambda prefix: api.ip_route_lookup(table_id=7, exact=1, prefix=prefix).retval == 0
    held = lambda: [there("20.0.0.0/24"), there("20.195.79.0/24")]
    assert held() == [True, True]
    leaves = client(socket)
    leaves.connect("leaves")

    def begin():
        try:
            assert leaves.api.ip_table_flush(table=table) is None, "it was cut off too late"
        except VPPIOError:
            pass

    begun = threading.Thread(target=begin)
    begun.start()
    time.sleep(0.05)
    leaves.transport.socket.shutdown(2)
    begun.join()
    # A change waits until that of the other client is taken back.
    route = {"table_id": 7, "prefix": "30.0.0.0/24", "n_paths": 1, "paths": [path(type=2)]}
    assert api.ip_route_add_del(is_add=True, is_multipath=False, route=route).retval == 0
    assert held() == [True, True]
    other = client(socket)
    other.connect("other")
    flush = threading.Thread(target=lambda: api.ip_table_flush(table=table))
    flush.start()
    answers = 0
    while flush.is_alive():
        assert other.api.control_ping().retval == 0
        answers += 1
    assert answers > 10, answers
    assert held() == [False, False]
    run("config rollback")
    assert held() == [True, True]
    assert api.ip_table_add_del(is_add=False, table=table).retval == 0
    assert (7, False) not in [(t.table.table_id, t.table.is_ip6) for t in api.ip_table_dump()]
    run("config rollback")
    other.disconnect()


def reads(vpp):
    """On a read-only socket: shows, dumps, and no change."""
    assert "local0" in interfaces(vpp.api)
    refused = vpp.api.create_loopback()
    assert (refused.retval, refused.sw_if_index) == (-9, 0), refused
    assert vpp.api.cli_inband(cmd="show version").retval == 0
    assert vpp.api.cli_inband(cmd="create loopback interface").retval == -1
    assert set(interfaces(vpp.api)) == {"local0"}
    assert vpp.api.want_interface_events(enable_disable=1, pid=1).retval == 0, "readers may get events"


def operates(vpp):
    """On an operator's socket: counters are reset, and the configuration does not change."""
    api = vpp.api
    assert api.create_loopback().retval == -9
    assert api.sw_interface_clear_stats(sw_if_index=0xFFFFFFFF).retval == 0
    # It removes static neighbors, too.
    assert api.ip_neighbor_flush(af=0, sw_if_index=0xFFFFFFFF).retval == -9
    assert api.cli_inband(cmd="clear interfaces").retval == 0
    assert api.cli_inband(cmd="create loopback interface").retval == -1
    assert set(interfaces(api)) == {"local0"}


def main():
    socket, task, *arguments = sys.argv[1:]
    vpp = client(socket)
    vpp.connect("scenario")
    tasks = {
        "configure": configure,
        "devices": devices,
        "routes": routes,
        "events": events,
        "reconnect": reconnect,
        "operates": operates,
        "reads": reads,
        "many": lambda vpp: many(vpp, socket),
        "statistics": statistics,
        "workers": workers,
    }
    tasks[task](vpp, *arguments)
    vpp.disconnect()
    print("done")


if __name__ == "__main__":
    main()
