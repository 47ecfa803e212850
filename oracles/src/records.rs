//! What the harness itself witnesses: the typed trace records of this crate, kinds 300 to 399.
//!
//! Invariant: none of them rests on what the system under test says of itself. 300: around the state machine.
//! 310: at the clients. 320: by the harness, about the phases of a run.

use sim_runtime::trace::{Kind, Payload};

/// A record of up to five words, of which `aux` holds a number of 32 bits.
macro_rules! payload {
    ($(#[$doc:meta])* $name:ident = $kind:literal { $($(#[$fdoc:meta])* $field:ident),* } $(aux $(#[$adoc:meta])* $aux:ident)?) => {
        $(#[$doc])*
        #[derive(Copy, Clone, PartialEq, Eq, Debug)]
        pub struct $name { $($(#[$fdoc])* pub $field: u64,)* $($(#[$adoc])* pub $aux: u32)? }

        impl Payload for $name {
            const KIND: Kind = Kind($kind);
            #[inline]
            fn encode(&self) -> (u32, [u64; 5]) {
                #[allow(unused_mut, reason = "some records have no words")]
                let mut words = [0; 5];
                let fields: &[u64] = &[$(self.$field),*];
                words[..fields.len()].copy_from_slice(fields);
                #[allow(unused_variables, reason = "some records have no aux")]
                let aux = 0u32;
                $(let aux = self.$aux;)?
                (aux, words)
            }
            #[inline]
            fn decode(_aux: u32, words: &[u64; 5]) -> Self {
                let [$($field,)* ..] = *words;
                Self { $($field,)* $($aux: _aux)? }
            }
        }
    };
}

payload! {
    /// A server's state machine was given an entry. `session` is 0 for an entry of no client.
    Applied = 300 {
        /** Position. */ index,
        /** The entry's term. */ term,
        /** Digest of its command. */ digest,
        /** The client's session. */ session,
        /** The client's number. */ sequence
    } aux /** Digest of the reply; see [`crate::witness::NO_REPLY`], [`crate::witness::FORGOTTEN`]. */ reply
}
payload! {
    /// A server's store carried out an operation: it took effect there.
    Executed = 301 {
        /** The client's session. */ session,
        /** The client's number. */ sequence,
        /** Position of the entry. */ index
    }
}
payload! {
    /// A client began an operation.
    Invoked = 310 {
        /** Session. */ session,
        /** Number. */ sequence,
        /** Key. */ key
    } aux /** 1 for an operation that goes through the log, 0 for a read. */ write
}
payload! {
    /// A client got the answer. `version` is the key's version as the answer tells it, 0 when it does not.
    Acknowledged = 311 {
        /** Session. */ session,
        /** Number. */ sequence,
        /** Key. */ key,
        /** Version. */ version
    } aux /** 1 for an operation that goes through the log, 0 for a read. */ write
}
payload! {
    /// A client gave up: the operation may take effect yet, or never.
    Unknown = 312 {
        /** Session. */ session,
        /** Number. */ sequence
    }
}
payload! {
    /// Faults are over, and every server that will be up is up. From `grace_ns` later on, no operation may end
    /// without an answer.
    Healed = 320 {
        /** How long the cluster may take to recover. */ grace_ns
    }
}
payload! {
    /// Clients begin nothing new: what is committed by now must be applied everywhere by [`Settled`].
    Quiesced = 321 {}
}
payload! {
    /// The cluster has had its time. Liveness and durability are judged now.
    Settled = 322 {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Debug;

    fn survives<P: Payload + PartialEq + Debug>(payload: P) {
        let (aux, words) = payload.encode();
        assert_eq!(P::decode(aux, &words), payload);
    }

    #[test]
    fn records_survive_their_words() {
        survives(Applied { index: 1, term: 2, digest: 3, session: 4, sequence: 5, reply: 6 });
        survives(Executed { session: 1, sequence: 2, index: 3 });
        survives(Invoked { session: 1, sequence: 2, key: 3, write: 1 });
        survives(Acknowledged { session: 1, sequence: 2, key: 3, version: 4, write: 1 });
        survives(Unknown { session: 1, sequence: 2 });
        survives(Healed { grace_ns: 1 });
        survives(Quiesced {});
        survives(Settled {});
    }
}
