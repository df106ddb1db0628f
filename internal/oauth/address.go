package oauth

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// maxAddress keeps what a server says out of errors by the megabyte.
const maxAddress = 2048

// parseURL reads an absolute http or https URL. Plain http is for loopback
// hosts only; user information, a fragment and control characters are refused
// everywhere.
func parseURL(raw string) (*url.URL, error) {
	if len(raw) > maxAddress {
		return nil, fmt.Errorf("the address is longer than %d bytes", maxAddress)
	}
	if strings.ContainsFunc(raw, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '\\' }) {
		return nil, errors.New("the address holds a space, a control character or a backslash")
	}
	u, err := url.Parse(raw)
	if err != nil {
		return nil, errors.New("the address cannot be parsed") // The parser's text repeats it unescaped.
	}
	switch {
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, fmt.Errorf("the address must begin with https://, not %q", oneLine(u.Scheme, 32))
	case u.Hostname() == "" || u.Opaque != "":
		return nil, errors.New("the address names no host")
	case u.User != nil:
		return nil, errors.New("the address holds a user name")
	case u.Fragment != "" || strings.HasSuffix(raw, "#"):
		return nil, errors.New("the address has a fragment")
	case u.Scheme == "http" && !loopbackHost(u.Hostname()):
		return nil, errors.New("plain http is for loopback only; the address must begin with https://")
	}
	return u, nil
}

// loopbackHost reports whether host can only mean this machine.
func loopbackHost(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// origin returns scheme, host and port of u in one comparable form.
func origin(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// endpoint checks an endpoint of an authorization server: it must have the
// issuer's own origin.
func endpoint(raw, issuer string) (*url.URL, error) {
	at, err := parseURL(issuer)
	if err != nil {
		return nil, err
	}
	u, err := parseURL(raw)
	if err != nil {
		return nil, err
	}
	if origin(u) != origin(at) {
		return nil, fmt.Errorf("it is at %s and its issuer at %s", oneLine(u.Host, 100), oneLine(at.Host, 100))
	}
	return u, nil
}

// reach says how far away an address is. A public server must not lead us to
// what only this machine or its network can reach.
type reach int

const (
	reachPublic reach = iota
	reachPrivate
	reachLoopback
	reachNever // link-local, cloud metadata, multicast, unspecified, reserved
)

var (
	carrierNAT = netip.MustParsePrefix("100.64.0.0/10")
	nat64      = netip.MustParsePrefix("64:ff9b::/96")
	// reserved holds what no server has: this network, class E with the
	// broadcast address, IPv4 in IPv6 by outdated means, site-local.
	reserved = []netip.Prefix{
		netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("240.0.0.0/4"), netip.MustParsePrefix("::/96"),
		netip.MustParsePrefix("2002::/16"), netip.MustParsePrefix("2001::/32"), netip.MustParsePrefix("fec0::/10"),
	}
)

func reachOf(ip netip.Addr) reach {
	ip = ip.Unmap().WithZone("")
	if nat64.Contains(ip) {
		b := ip.As16()
		ip = netip.AddrFrom4([4]byte(b[12:]))
	}
	switch {
	case ip.IsLoopback():
		return reachLoopback
	case !ip.IsValid() || ip.IsLinkLocalUnicast() || ip.IsMulticast() || slices.ContainsFunc(reserved, func(p netip.Prefix) bool { return p.Contains(ip) }):
		return reachNever
	case ip.IsPrivate() || carrierNAT.Contains(ip):
		return reachPrivate
	}
	return reachPublic
}

// allows reports whether a server that is itself at distance r may lead to an
// address at distance other.
func (r reach) allows(other reach) bool {
	switch other {
	case reachPublic:
		return true
	case reachPrivate:
		return r == reachPrivate || r == reachLoopback
	case reachLoopback:
		return r == reachLoopback
	default:
		return false
	}
}
