package volley_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"example.org/volley"
)

// connect returns a client of the router whose socket is named by VOLLEY_SOCKET.
func connect(t *testing.T) (*volley.Client, context.Context) {
	socket := os.Getenv("VOLLEY_SOCKET")
	if socket == "" {
		t.Skip("needs a router: VOLLEY_SOCKET names its socket")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	router := volley.New(socket)
	if _, err := router.Replace(ctx, map[string]any{}, volley.Options{}); err != nil {
		t.Fatal(err)
	}
	return router, ctx
}

func must[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func TestTheConfigurationIsReplacedAndRolledBack(t *testing.T) {
	router, ctx := connect(t)
	var config map[string]any
	tag := must(router.Config(ctx, &config))(t)
	config["loopbacks"] = map[string]any{"loop0": map[string]any{"description": "Zürich 😀"}}
	config["memif-sockets"] = map[string]any{"1": "/run/x.sock"}
	dry := must(router.Replace(ctx, config, volley.Options{DryRun: true}))(t)
	if dry.Changed || len(dry.Difference) == 0 {
		t.Fatalf("%+v", dry)
	}
	change := must(router.Replace(ctx, config, volley.Options{IfMatch: tag}))(t)
	if !change.Changed {
		t.Fatalf("%+v", change)
	}
	var now map[string]any
	if read := must(router.Config(ctx, &now))(t); read != fmt.Sprintf("%q", fmt.Sprint(change.Generation)) {
		t.Fatal(read, change.Generation)
	}
	// Numbers keep their digits.
	again := must(router.Replace(ctx, now, volley.Options{}))(t)
	if again.Changed {
		t.Fatalf("%+v", again)
	}
	_, err := router.Patch(ctx, map[string]any{"tables": []int{7}}, volley.Options{IfMatch: tag})
	if !volley.IsConflict(err) {
		t.Fatal(err)
	}
	if _, err := router.Rollback(ctx, 1, volley.Options{IfMatch: tag}); !volley.IsConflict(err) {
		t.Fatal(err)
	}
	if back := must(router.Rollback(ctx, 1, volley.Options{}))(t); !back.Changed {
		t.Fatalf("%+v", back)
	}
}

func TestAChangeIsConfirmed(t *testing.T) {
	router, ctx := connect(t)
	options := volley.Options{ConfirmWithin: time.Minute}
	change := must(router.Patch(ctx, map[string]any{"tables": []int{7}}, options))(t)
	if change.RollsBackIn != 60 {
		t.Fatalf("%+v", change)
	}
	other := volley.Change{Generation: change.Generation - 1}
	if _, err := router.Confirm(ctx, other); !volley.IsConflict(err) {
		t.Fatal(err)
	}
	must(router.Confirm(ctx, change))(t)
	var refused *volley.Refused
	if _, err := router.Confirm(ctx, change); !errors.As(err, &refused) || refused.Status != 409 {
		t.Fatal(err)
	}
}

func TestFaultsHaveTheirPlaces(t *testing.T) {
	router, ctx := connect(t)
	wrong := map[string]any{"loopbacks": map[string]any{"loop0": map[string]any{"mtu": "big"}}}
	_, err := router.Replace(ctx, wrong, volley.Options{})
	var refused *volley.Refused
	if !errors.As(err, &refused) || refused.Status != 422 || refused.Faults[0].Pointer != "/loopbacks/loop0/mtu" {
		t.Fatalf("%+v", err)
	}
	if !strings.Contains(err.Error(), "/loopbacks/loop0/mtu: ") {
		t.Fatal(err)
	}
}

func TestCommandsRun(t *testing.T) {
	router, ctx := connect(t)
	results := must(router.Run(ctx, "create loopback interface", "show version"))(t)
	if len(results) != 2 || !json.Valid(results[1].Output) {
		t.Fatalf("%+v", results)
	}
	results, err := router.Run(ctx, "set interface state loop9 up", "create loopback interface")
	if err == nil || len(results) != 1 || results[0].Error == "" {
		t.Fatal(results, err)
	}
	var ports []struct{ Name string }
	if err := router.Show(ctx, "interface loop0", &ports); err != nil || ports[0].Name != "loop0" {
		t.Fatal(ports, err)
	}
	if err := router.Show(ctx, "ip fib 0.0.0.0/0", &struct{}{}); err == nil {
		t.Fatal("a list was read into a struct")
	}
	about := must(router.About(ctx))(t)
	if about.Version == "" || about.Generation == 0 {
		t.Fatalf("%+v", about)
	}
}

func TestAWatchSeesAChange(t *testing.T) {
	router, ctx := connect(t)
	seen := errors.New("seen")
	err := router.Watch(ctx, func(event volley.Event) error {
		if event.Complete {
			_, err := router.Run(ctx, "create loopback interface")
			return err
		}
		if event.Interface != nil && event.Interface.Name == "loop0" {
			return seen
		}
		return nil
	})
	if !errors.Is(err, seen) {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	nothing := func(volley.Event) error { return nil }
	if err := router.Watch(short, nothing); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
}
