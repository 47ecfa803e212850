//! Nodes as IP addresses: node `n` is 10.0.(n / 256).(n mod 256).

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use sim_runtime::NodeId;

/// The address of a node.
pub const fn ip_of(node: NodeId) -> IpAddr {
    let [high, low] = node.0.to_be_bytes();
    IpAddr::V4(Ipv4Addr::new(10, 0, high, low))
}

/// A port of a node.
pub const fn addr_of(node: NodeId, port: u16) -> SocketAddr {
    SocketAddr::new(ip_of(node), port)
}

/// The node that has this address (whether or not it exists); `None` for addresses outside 10.0.0.0/16.
pub const fn node_of(ip: IpAddr) -> Option<NodeId> {
    match ip {
        IpAddr::V4(v4) => match v4.octets() {
            [10, 0, high, low] => Some(NodeId(u16::from_be_bytes([high, low]))),
            _ => None,
        },
        IpAddr::V6(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_has_an_address_of_its_own_and_back() {
        for id in [0, 1, 255, 256, 999, u16::MAX] {
            assert_eq!(node_of(ip_of(NodeId(id))), Some(NodeId(id)));
        }
        assert_eq!(ip_of(NodeId(258)).to_string(), "10.0.1.2");
        assert_eq!(node_of(IpAddr::V4(Ipv4Addr::LOCALHOST)), None);
    }
}
