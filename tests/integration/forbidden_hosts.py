"""Spellings of places that are not public, and the addresses that names of them may lead to."""

from __future__ import annotations

import pytest

WRITTEN = {
    "127.0.0.1 in other bases": """
        2130706433 2130706433. 0x7f000001 0X7F000001 0x7f000001. 017700000001 00000000017700000001 0x7f.0.0.1
        0177.0.0.1 0177.0.0.01 127.0.0.0x1 0x7f.0x0.0x0.0x1 0177.0000.0000.0001 127.0x0.0.01 0x0000007f.0.0.1
        127.0.0.00000000000000001 18446744071692774401 -2130706433
    """,
    "127.0.0.1 in fewer or more parts": """
        127.1 127.0.1 127.1. 0x7f.1 0177.1 127.65535 127.0.257 127.0.0.1. 127.0.0.1.. 127..1 127.0.0.1.0 0 0.0 00 0x0 0x
        127.255.255.254 0.0.0.0 0.0.0.0. 0.1.2.3
    """,
    "127.0.0.1 in other digits and dots": """
        \u2460\u2461\u2466.\u2460 \u2460\u2461\u2466.\u24ea.\u24ea.\u2460 \uff11\uff12\uff17.\uff10.\uff10.\uff11 127\u30020\u30020\u30021
        127\uff0e0\uff0e0\uff0e1 127\uff610\uff610\uff611 \u0661\u0662\u0667.0.0.1 \u0967\u0968\u096d.0.0.1
        \u00b9\u00b2\u2077.0.0.1 \U0001d7cf\U0001d7d0\U0001d7d5.0.0.1 \U0001f102\U0001f103.0.0.1 127.0.0.\u2460 127.0.0.\u00b9
        127.0.0.1\u3002 \u2488\u2489.1
    """,
    "metadata and other addresses inside": """
        169.254.169.254 169.254.169.254. 2852039166 0xa9fea9fe 0251.0376.0251.0376 169.254.43518 169.16689662
        0xa9.0xfe.0xa9.0xfe 169.254.0xa9fe 0251.254.169.254 169.254.170.2 100.100.100.200 192.0.0.192 168.63.129.16
        10.0.0.1 10.1 012.0.0.1 0xa.0.0.1 172.16.0.1 172.31.255.255 2886729729 192.168.0.1 192.168.257 3232235521
    """,
    "shared, tests, documentation, multicast, reserved": """
        100.64.0.1 100.127.255.254 198.18.0.1 198.19.255.255 192.0.2.1 198.51.100.7 203.0.113.9 192.88.99.1 192.0.0.8
        224.0.0.1 239.255.255.250 240.0.0.1 255.255.255.255 4294967295 037777777777
    """,
    "IPv6": """
        [::1] [::] [0:0:0:0:0:0:0:1] [0000:0000:0000:0000:0000:0000:0000:0001] [::0:1] [0::1] [::0.0.0.1] [::0.0.0.0]
        [fe80::1] [fe80::a9fe:a9fe] [febf::1] [fec0::1] [fc00::1] [fd00:ec2::254] [fd20:ce::254] [fdff::1]
        [ff02::1] [ff0e::1] [2001:db8::1] [3fff::1] [2001:2::1] [2001:10::1] [2001:20::1] [100::1] [5f00::1] [4000::1]
    """,
    "IPv4 in IPv6: mapped, compatible, translated, NAT64, 6to4, Teredo": """
        [::ffff:127.0.0.1] [::ffff:7f00:1] [::FFFF:7F00:0001] [0:0:0:0:0:ffff:7f00:1] [0:0:0:0:0:ffff:127.0.0.1]
        [::ffff:169.254.169.254] [::ffff:a9fe:a9fe] [::ffff:10.0.0.1] [::ffff:0.0.0.0] [::ffff:8.8.8.8]
        [::127.0.0.1] [::7f00:1] [::169.254.169.254] [::a9fe:a9fe] [::ffff:0:127.0.0.1] [::ffff:0:a9fe:a9fe]
        [64:ff9b::127.0.0.1] [64:ff9b::7f00:1] [64:ff9b::a9fe:a9fe] [64:ff9b:1::a9fe:a9fe] [64:ff9b::8.8.8.8]
        [2002:7f00:1::] [2002:7f00:1::1] [2002:a9fe:a9fe::] [2002:a00:1::1] [2001:0:7f00:1::] [2001:0:0:0:0:0:80ff:fffe]
    """,
    "malformed IPv6, zones, and IPv4 in brackets": """
        [::1%25lo] [::1%lo] [::1%250] [fe80::1%25eth0] [fe80::1%eth0] [fe80::1%252] [::ffff:127.0.0.1%25lo] [127.0.0.1]
        [2130706433] [0x7f.1] [localhost] [::ffff:0177.0.0.1] [::ffff:127.1] [::ffff:0x7f000001] [::1]. [::1]x [:::1]
        [::1 ::1 ::1] [[::1]] [] [v1.x] [v7.::1] [\uff1a\uff1a1] [::\u2460]
    """,
    "user names, passwords, and what looks like them": """
        user@127.0.0.1 user:password@127.0.0.1 example.com@127.0.0.1 example.com:443@127.0.0.1 @127.0.0.1 :@127.0.0.1
        127.0.0.1@example.com example.com%40127.0.0.1 example.com\\@127.0.0.1 127.0.0.1\\@example.com
        127.0.0.1#@example.com example.com#@127.0.0.1 127.0.0.1%23@example.com user@[::1] a@b@127.0.0.1
        example.com\uff20127.0.0.1 127.0.0.1\uff0f.example.com 127.0.0.1\uff03.example.com
    """,
    "escapes and what cannot be seen": """
        127.0.0.1%00 127.0.0.1%2e 127%2e0%2e0%2e1 %31%32%37.0.0.1 127.0.0.1%20 127.0.0.1%09 localhost%00.example.com
        127.0.0.1%0d%0a 127.0.0.1\x00 127.0.0.1\x00.example.com 127.0.0.1\x7f 127.0.0.1\x08 1\u00ad27.0.0.1
        127.0.0.1\u200b 127.0.0.1\ufeff 127.0.0.1\ud800
    """,
    "names that are never public": """
        localhost LOCALHOST LocalHost localhost. localhost.. a.localhost a.b.localhost. localhost.localdomain
        localhost6 ip6-localhost ip6-loopback loopback broadcasthost
        \uff4c\uff4f\uff43\uff41\uff4c\uff48\uff4f\uff53\uff54 \u24db\u24de\u24d2\u24d0\u24db\u24d7\u24de\u24e2\u24e3
        l\u00adocalhost local\u200dhost \u217cocalhost localho\u017ft
        metadata metadata. metadata.google.internal METADATA.GOOGLE.INTERNAL metadata.google.internal.
        metadata.goog.internal instance-data instance-data.ec2.internal metadata.azure.internal metadata.internal
        ip-10-0-0-1.ec2.internal host.docker.internal gateway.docker.internal kubernetes.docker.internal
        kubernetes.default.svc.cluster.local kubernetes printer.local nas.lan router.home router.home.arpa www.corp
        db.intranet db.private redis postgres
    """,
}  # fmt: skip
BLANKS = ["127.0.0.1 ", " 127.0.0.1", "127.0.0.1\t", "127.0.0\n.1", "127.0.0.1\r\n", "127.0.0.1\x1f", "127.0.0.1\u00a0"]
BLANKS += ["127.0.0.1\u2028", "127.0.0.1\u3000", "example.com @127.0.0.1", "example.com\r\nHost: 127.0.0.1"]

HOSTS = [pytest.param(host, id=ascii(host)) for host in (*BLANKS, *" ".join(WRITTEN.values()).split())]
"""Hosts as they may stand in a URL."""

ADDRESSES = """
    127.0.0.1 127.255.255.254 0.0.0.0 10.0.0.1 100.64.0.1 100.100.100.200 168.63.129.16 169.254.169.254 172.16.0.1 192.0.0.192
    192.0.2.1 192.88.99.1 192.168.0.1 198.18.0.1 198.51.100.1 203.0.113.1 224.0.0.1 240.0.0.1 255.255.255.255
    ::1 :: ::7f00:1 ::ffff:127.0.0.1 ::ffff:8.8.8.8 ::ffff:0:7f00:1 64:ff9b::7f00:1 64:ff9b:1::7f00:1 2002:7f00:1::
    2001:0:7f00:1:: 2001:db8::1 3fff::1 fe80::1 fe80::1%1 fec0::1 fd00:ec2::254 ff02::1 100::1 5f00::1
""".split()  # noqa: SIM905 (a list would take forty lines)
"""What a name server may answer."""
