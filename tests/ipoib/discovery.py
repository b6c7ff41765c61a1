"""Multicast DNS by python3-zeroconf: `discovery.py announce ADDRESS` announces a service and makes the file announced-ADDRESS;
`discovery.py find ADDRESS` finds it over the version of its own address."""

import pathlib
import socket
import sys
import time

from zeroconf import InterfaceChoice, IPVersion, ServiceInfo, Zeroconf

TYPE = "_test._tcp.local."
what, address = sys.argv[1:]
is_v6 = ":" in address
family, name = (socket.AF_INET6, "six") if is_v6 else (socket.AF_INET, "one")
version = IPVersion.V6Only if is_v6 else IPVersion.V4Only
end = Zeroconf(interfaces=InterfaceChoice.All if is_v6 else [address], ip_version=version)
if what == "announce":
    packed = socket.inet_pton(family, address)
    end.register_service(ServiceInfo(TYPE, f"{name}.{TYPE}", addresses=[packed], port=99, server=f"{name}.local."))
    pathlib.Path(f"announced-{address}").touch()
    time.sleep(60)
else:
    info = end.get_service_info(TYPE, f"{name}.{TYPE}", 20_000)
    found = [socket.inet_ntop(family, one) for one in info.addresses_by_version(version)] if info else []
    print(f"found by {address}:", *([info.server, *found, info.port] if info else ["nothing"]), flush=True)
    end.close()
