"""The upstream servers of the tests, under one name."""
# pylint: disable=unused-import
from dnsserver import DnsServer, rotate
from gitserver import GitServer
from raw import Connection, ProxyServer, RawServer, Request, SinkServer, chunked, response
