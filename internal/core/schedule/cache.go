package schedule

import (
	"sync"
	"time"
)

// Cache shares zones and compiled expressions between the schedules that name them. It is safe for concurrent use.
type Cache struct {
	load func(name string) (*time.Location, error)

	mu    sync.RWMutex // guards the maps
	zones map[string]*Zone
	crons map[cronKey]*Cron
}

type cronKey struct {
	expression, zone string
	day              Day
}

// The cache stays below about 30 MB: a full map is emptied, and refills with what is in use.
const (
	maxZones = 1024
	maxCrons = 1 << 16
)

// NewCache makes a cache that loads zones with the given function, usually time.LoadLocation.
func NewCache(load func(name string) (*time.Location, error)) *Cache {
	return &Cache{load: load, zones: map[string]*Zone{"UTC": UTC}, crons: map[cronKey]*Cron{}}
}

// Zone returns the zone with a name, or an *Error.
func (c *Cache) Zone(name string) (*Zone, error) {
	c.mu.RLock()
	z := c.zones[name]
	c.mu.RUnlock()
	if z != nil {
		return z, nil
	}
	if err := checkZone(name); err != nil {
		return nil, err
	}
	loc, err := c.load(name)
	if err != nil {
		return nil, wrong("timezone", name, 0, wantZone, "there is no such zone")
	}
	z = NewZone(loc)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.zones) >= maxZones {
		c.zones = map[string]*Zone{"UTC": UTC}
	}
	c.zones[name] = z
	return z, nil
}

// Cron returns the compiled expression in the named zone; an empty name is UTC.
func (c *Cache) Cron(expression, zone string, day Day) (*Cron, error) {
	if zone == "" {
		zone = "UTC"
	}
	if day == "" {
		day = Vixie
	}
	key := cronKey{expression, zone, day}
	c.mu.RLock()
	x := c.crons[key]
	c.mu.RUnlock()
	if x != nil {
		return x, nil
	}
	z, err := c.Zone(zone)
	if err != nil {
		return nil, err
	}
	if x, err = Parse(expression, Options{Zone: z, Day: day}); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.crons) >= maxCrons {
		c.crons = map[cronKey]*Cron{}
	}
	c.crons[key] = x
	return x, nil
}
