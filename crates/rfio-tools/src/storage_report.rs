//! Builds the WLCG Storage Resource Reporting document (JSON, schema 4.2) that a site publishes: a
//! service's capacity and usage.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// Part of the storage assigned to virtual organisations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// Name in the report.
    pub name: String,
    /// The virtual organisations.
    pub vos: Vec<String>,
    /// Location, `HOST:/PATH`.
    pub place: String,
}

impl std::str::FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = || format!("'{text}' is not NAME:VO[,VO...]=HOST:/PATH");
        let (who, place) = text.split_once('=').ok_or_else(form)?;
        let (name, vos) = who.split_once(':').ok_or_else(form)?;
        let vos: Vec<String> = vos.split(',').map(str::to_owned).collect();
        if name.is_empty() || place.is_empty() || vos.iter().any(String::is_empty) {
            return Err(form());
        }
        Ok(Self {
            name: name.to_owned(),
            vos,
            place: place.to_owned(),
        })
    }
}

/// A share's capacity and usage, as reported by its service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Measured {
    /// The share.
    pub share: Share,
    /// Path on the service.
    pub path: String,
    /// URL of the service.
    pub endpoint: String,
    /// Device number of the share's file system on the service.
    pub device: u64,
    /// Size of the file system in bytes.
    pub total: u64,
    /// Bytes that an unprivileged user can no longer allocate.
    pub used: u64,
}

/// The service as a whole.
#[derive(Debug, Clone, Default)]
pub struct Service {
    /// Name.
    pub name: Option<String>,
    /// Identifier, by custom the host's name.
    pub id: Option<String>,
    /// Quality level, one of the schema's.
    pub quality: String,
}

/// Returns the report; `now` is in seconds since 1970.
pub fn report(service: &Service, shares: &[Measured], now: u64) -> Value {
    // Shares on one file system share its bytes, so each file system counts once.
    let systems: BTreeMap<(&str, u64), (u64, u64)> = shares
        .iter()
        .map(|one| ((one.endpoint.as_str(), one.device), (one.total, one.used)))
        .collect();
    let sum =
        |bytes: fn(&(u64, u64)) -> u64| systems.values().map(bytes).fold(0, u64::saturating_add);
    let mut endpoints: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for one in shares {
        endpoints
            .entry(&one.endpoint)
            .or_default()
            .push(&one.share.name);
    }
    let endpoint_name = |url: &str| {
        let index = endpoints.keys().position(|known| *known == url);
        format!("rfio{}", index.unwrap_or(0))
    };
    let storageendpoints: Vec<Value> = endpoints
        .iter()
        .map(|(url, names)| {
            json!({
                "name": endpoint_name(url),
                "endpointurl": url,
                "interfacetype": "rfio",
                "interfaceversion": verbena_rfio_protocol::NEWEST.to_string(),
                "qualitylevel": service.quality,
                "assignedshares": names,
            })
        })
        .collect();
    let storageshares: Vec<Value> = shares
        .iter()
        .map(|one| {
            json!({
                "name": one.share.name,
                "accesslatency": "online",
                "servingstate": "open",
                "timestamp": now,
                "totalsize": one.total,
                "usedsize": one.used,
                "path": [one.path],
                "assignedendpoints": [endpoint_name(&one.endpoint)],
                "vos": one.share.vos,
            })
        })
        .collect();
    let mut fields = Map::new();
    for (key, value) in [("name", &service.name), ("id", &service.id)] {
        if let Some(value) = value {
            fields.insert(key.into(), value.as_str().into());
        }
    }
    for (key, value) in [
        ("servicetype", json!("disk")),
        ("implementation", json!("Verbena rfiod")),
        ("implementationversion", json!(env!("CARGO_PKG_VERSION"))),
        ("qualitylevel", json!(service.quality)),
        ("latestupdate", json!(now)),
        (
            "storagecapacity",
            json!({ "online": { "totalsize": sum(|one| one.0), "usedsize": sum(|one| one.1) } }),
        ),
        ("storageendpoints", storageendpoints.into()),
        ("storageshares", storageshares.into()),
    ] {
        fields.insert(key.into(), value);
    }
    json!({ "storageservice": fields })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_parsed_with_name_organisations_and_path() {
        let share: Share = "data:atlas,cms=[::1]:/a=b".parse().unwrap();
        assert_eq!(share.vos, ["atlas", "cms"]);
        assert_eq!(share.place, "[::1]:/a=b");
        for bad in ["", "x", "x=h:/", "x:=h:/", ":v=h:/", "x:v,=h:/", "x:v="] {
            assert!(bad.parse::<Share>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_file_system_with_two_shares_counts_once() {
        let measured = |name: &str, device, total, used| Measured {
            share: format!("{name}:vo=h:/{name}").parse().unwrap(),
            path: format!("/{name}"),
            endpoint: "rfio://h:5001/".into(),
            device,
            total,
            used,
        };
        let shares = [
            measured("a", 1, 100, 40),
            measured("b", 1, 100, 40),
            measured("c", 2, u64::MAX, 7),
        ];
        let service = Service {
            quality: "testing".into(),
            ..Service::default()
        };
        let report = report(&service, &shares, 1_000);
        let online = &report["storageservice"]["storagecapacity"]["online"];
        assert_eq!(online["totalsize"], u64::MAX);
        assert_eq!(online["usedsize"], 47);
        let endpoints = &report["storageservice"]["storageendpoints"];
        assert_eq!(endpoints[0]["assignedshares"], json!(["a", "b", "c"]));
    }
}
