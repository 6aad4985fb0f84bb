//! The limiters, and the quotas in force.

use std::{collections::BTreeMap, sync::Arc};

use tollgate::{BuildError, ChangeError, Limiter};

use crate::config::Quotas;

/// A limiter for each kind of key.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    pub(crate) tenants: Arc<Limiter>,
    pub(crate) addresses: Arc<Limiter>,
}

/// The limiters, and what was brought into force in them. Whoever has this is the one who changes quotas.
#[derive(Debug)]
pub(crate) struct InForce {
    limits: Limits,
    quotas: Quotas,
}

impl InForce {
    pub(crate) fn new(quotas: &Quotas) -> Result<Self, SetUpError> {
        let build = |quota| Limiter::builder(quota).try_build().map(Arc::new);
        let limits = Limits {
            tenants: build(quotas.default).map_err(SetUpError::Build)?,
            addresses: build(quotas.address).map_err(SetUpError::Build)?,
        };
        let &Quotas { address, default, .. } = quotas;
        let mut in_force = Self { limits, quotas: Quotas { address, default, tenants: BTreeMap::new() } };
        in_force.bring_to(quotas).map_err(SetUpError::Change)?;
        Ok(in_force)
    }

    pub(crate) fn limits(&self) -> Limits {
        self.limits.clone()
    }

    pub(crate) fn quotas(&self) -> &Quotas {
        &self.quotas
    }

    /// Changes what differs, and says in how many quotas that was. What clients owe they go on owing.
    ///
    /// What could not be changed does not hold up the rest. It still differs: to be tried again.
    pub(crate) fn bring_to(&mut self, wanted: &Quotas) -> Result<usize, ChangeError> {
        let Self { limits, quotas } = self;
        let (mut changes, mut failed) = (0, None);
        let mut done = |result| match result {
            Ok(()) => changes += 1,
            Err(error) => failed = Some(error),
        };
        for (limiter, now, wanted) in
            [(&limits.addresses, &mut quotas.address, wanted.address), (&limits.tenants, &mut quotas.default, wanted.default)]
        {
            if *now != wanted {
                // Without room for a bucket to move to, the limiter goes on trying by itself.
                done(limiter.set_default_quota(wanted).or_else(|error| if error == ChangeError::NoRoom { Ok(()) } else { Err(error) }));
                *now = wanted;
            }
        }
        quotas.tenants.retain(|tenant, _| {
            let stays = wanted.tenants.contains_key(tenant);
            let cleared = if stays { Ok(()) } else { limits.tenants.clear_quota(tenant.as_str()) };
            if !stays {
                done(cleared);
            }
            stays || cleared.is_err()
        });
        for (tenant, &quota) in &wanted.tenants {
            if quotas.tenants.get(tenant) != Some(&quota) {
                let set = limits.tenants.set_quota(tenant.as_str(), quota);
                if set.is_ok() {
                    quotas.tenants.insert(tenant.clone(), quota);
                }
                done(set);
            }
        }
        failed.map_or(Ok(changes), Err)
    }
}

/// Why there are no limits to serve behind.
#[derive(Debug)]
pub(crate) enum SetUpError {
    Build(BuildError),
    Change(ChangeError),
}

impl std::fmt::Display for SetUpError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Build(error) => error.fmt(f),
            Self::Change(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SetUpError {}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tollgate::Quota;

    use super::*;

    fn quotas(default: &str, tenants: &[(&str, &str)]) -> Quotas {
        let tenants = tenants.iter().map(|(name, quota)| format!("{name} = '{quota}'")).collect::<Vec<_>>().join("\n");
        Quotas::parse(&format!("address = '10/s'\ndefault = '{default}'\n[tenants]\n{tenants}"), Path::new("")).expect("it is right")
    }

    #[test]
    fn only_what_differs_is_changed() {
        let first = quotas("10/s", &[("a", "1/h burst 5"), ("b", "20/s")]);
        let mut in_force = InForce::new(&first).expect("there is room");
        assert_eq!(in_force.bring_to(&first), Ok(0));
        let second = quotas("30/s", &[("a", "1/h burst 4"), ("c", "20/s")]);
        assert_eq!(in_force.bring_to(&second), Ok(4), "the default, a, b, and c");
        assert_eq!(in_force.quotas(), &second);
        let tenants = in_force.limits().tenants;
        assert_eq!(
            ["a", "b", "c"].map(|tenant| tenants.quota(tenant)),
            [Quota::per_hour(1).burst(4), Quota::per_second(30), Quota::per_second(20)]
        );
        assert_eq!(tenants.own_quotas(), 2);
    }

    #[test]
    fn a_debt_is_kept_from_quota_to_quota() {
        let mut in_force = InForce::new(&quotas("1/h burst 9", &[("a", "1/h burst 10")])).expect("there is room");
        let tenants = in_force.limits().tenants;
        assert!(tenants.check_n("a", 4).is_ok());
        for (tenants_now, left) in [(&[("a", "1/h burst 6")][..], 2), (&[], 5), (&[("a", "1/h burst 40")], 36)] {
            assert_eq!(in_force.bring_to(&quotas("1/h burst 9", tenants_now)), Ok(1));
            assert_eq!(tenants.peek("a").remaining(), left);
        }
    }
}
