// Adds an address to an interface, and keeps it only if the interface has a link within half a minute.
//
// usage: address INTERFACE ADDRESS/LENGTH
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"time"

	"example.org/volley"
)

// The part of the configuration that this program changes.
type config struct {
	Interfaces map[string]port `json:"interfaces"`
}

type port struct {
	Addresses []string `json:"addresses"`
}

var errUp = errors.New("the link is up")

func main() {
	log.SetFlags(0)
	socket := flag.String("socket", "/run/volley/http.sock", "the socket of the native API")
	flag.Parse()
	if flag.NArg() != 2 {
		log.Fatal("usage: address INTERFACE ADDRESS/LENGTH")
	}
	if err := add(volley.New(*socket), flag.Arg(0), flag.Arg(1)); err != nil {
		log.Fatal(err)
	}
}

func add(router *volley.Client, name, address string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var now config
	tag, err := router.Config(ctx, &now)
	if err != nil {
		return err
	}
	if _, there := now.Interfaces[name]; !there {
		return fmt.Errorf("there is no interface %s", name)
	}
	patch := config{map[string]port{name: {append(now.Interfaces[name].Addresses, address)}}}
	// Refused if somebody else has changed the configuration meanwhile. Rolled back unless it is confirmed.
	options := volley.Options{IfMatch: tag, ConfirmWithin: 60 * time.Second}
	change, err := router.Patch(ctx, patch, options)
	if err != nil {
		return err
	}
	for _, line := range change.Difference {
		fmt.Println(line)
	}
	err = router.Watch(ctx, func(event volley.Event) error {
		if port := event.Interface; port != nil && port.Name == name && port.LinkUp {
			return errUp
		}
		return nil
	})
	if !errors.Is(err, errUp) {
		return fmt.Errorf("%s has no link, so the router rolls the change back: %w", name, err)
	}
	_, err = router.Confirm(ctx, change)
	return err
}
